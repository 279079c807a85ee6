//! A wire to Postgres that tests cut.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// When the connection of a COMMIT is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The server never gets it.
    OnTheWay,
    /// The server has committed, and its answer does not arrive.
    Answer,
}

/// The end of a query, and the server's word that it has committed. Not a word of READ COMMITTED.
const COMMIT: &[u8] = b"COMMIT\0";

const OPEN: u8 = 0;
const CUT: u8 = 1;
const SILENT: u8 = 2;
const FULL: u8 = 3;

/// Between a service and its database. What passes is not encrypted.
pub struct Proxy {
    url: String,
    wire: Arc<Wire>,
}

struct Wire {
    server: Mutex<String>,
    mode: AtomicU8,
    /// Raised to end every connection.
    cuts: watch::Sender<u64>,
    /// Raised to let nothing pass on every connection that is there.
    freezes: AtomicU64,
    commits_to_lose: AtomicUsize,
    lost: AtomicU8,
}

impl Proxy {
    /// A way to this database.
    pub async fn to(database: &str) -> Self {
        let (address, settings) = database.split_once('?').unwrap_or((database, ""));
        let (scheme, rest) = address.split_once("://").expect("an address is a URL");
        let (place, name) = rest.rsplit_once('/').expect("an address ends with /database");
        let (user, server) =
            place.rsplit_once('@').map_or((String::new(), place), |(u, s)| (format!("{u}@"), s));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let settings: Vec<_> =
            settings.split('&').filter(|s| !s.is_empty() && !s.starts_with("ssl")).collect();
        let settings = [&["sslmode=disable"], &*settings].concat().join("&");
        let wire = Arc::new(Wire {
            server: Mutex::new(server.to_owned()),
            mode: AtomicU8::new(OPEN),
            cuts: watch::Sender::new(0),
            freezes: AtomicU64::new(0),
            commits_to_lose: AtomicUsize::new(0),
            lost: AtomicU8::new(0),
        });
        tokio::spawn(accept(listener, Arc::clone(&wire)));
        Self { url: format!("{scheme}://{user}127.0.0.1:{port}/{name}?{settings}"), wire }
    }

    /// The database's address through it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends every connection and takes no new one: an outage.
    pub fn cut(&self) {
        self.wire.mode.store(CUT, Ordering::Release);
        self.drop_connections();
    }

    /// Takes no new connection; those that are there work on. So is a server at its limit.
    pub fn refuse_new(&self) {
        self.wire.mode.store(FULL, Ordering::Release);
    }

    /// Connections stay and are made, but nothing passes: the outage of a network.
    pub fn silence(&self) {
        self.wire.mode.store(SILENT, Ordering::Release);
    }

    /// On the connections that are there nothing passes any more, for ever; new ones work. So it is
    /// behind a firewall that has forgotten them.
    pub fn forget_connections(&self) {
        self.wire.freezes.fetch_add(1, Ordering::AcqRel);
    }

    /// Everything passes again. What was silent is lost.
    pub fn restore(&self) {
        self.wire.mode.store(OPEN, Ordering::Release);
        self.drop_connections();
    }

    /// Ends every connection; new ones are made.
    pub fn drop_connections(&self) {
        self.wire.cuts.send_modify(|cut| *cut += 1);
    }

    /// Leads to another server from now on, in one moment: connections end, and new ones are made there.
    pub fn lead_to(&self, database: &str) {
        let address = database.split_once('?').map_or(database, |(address, _)| address);
        let (_, rest) = address.split_once("://").expect("an address is a URL");
        let (place, _) = rest.rsplit_once('/').expect("an address ends with /database");
        let server = place.rsplit_once('@').map_or(place, |(_, server)| server);
        server.clone_into(&mut self.wire.server.lock().unwrap_or_else(PoisonError::into_inner));
        self.restore();
    }

    /// Loses the connection at the next so many COMMITs.
    pub fn lose_commits(&self, commits: usize, lost: Lost) {
        self.wire.lost.store(lost as u8, Ordering::Release);
        self.wire.commits_to_lose.store(commits, Ordering::Release);
    }

    /// How many COMMITs are still to be lost.
    #[must_use]
    pub fn commits_to_lose(&self) -> usize {
        self.wire.commits_to_lose.load(Ordering::Acquire)
    }
}

async fn accept(listener: TcpListener, wire: Arc<Wire>) {
    while let Ok((client, _)) = listener.accept().await {
        if matches!(wire.mode.load(Ordering::Acquire), CUT | FULL) {
            continue;
        }
        tokio::spawn(carry(client, Arc::clone(&wire)));
    }
}

async fn carry(client: TcpStream, wire: Arc<Wire>) {
    let mut cuts = wire.cuts.subscribe();
    cuts.mark_unchanged();
    let server = wire.server.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Whatever ends first takes both sides with it.
    tokio::select! {
        () = forth_and_back(from_client, to_server, from_server, to_client, &wire) => {}
        _ = cuts.changed() => {}
    }
}

async fn forth_and_back(
    mut from_client: OwnedReadHalf,
    mut to_server: OwnedWriteHalf,
    mut from_server: OwnedReadHalf,
    mut to_client: OwnedWriteHalf,
    wire: &Wire,
) {
    let (mut forth, mut back) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let made_at = wire.freezes.load(Ordering::Acquire);
    let mut swallowing = false;
    loop {
        tokio::select! {
            read = from_client.read(&mut forth) => {
                let Some(bytes) = passed(read, &forth, wire, made_at).await else { return };
                if has(bytes, COMMIT) && wire.takes_this_commit() {
                    if wire.lost.load(Ordering::Acquire) == Lost::OnTheWay as u8 {
                        return;
                    }
                    swallowing = true;
                }
                if to_server.write_all(bytes).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut back) => {
                let Some(bytes) = passed(read, &back, wire, made_at).await else { return };
                if swallowing {
                    // The server's word that it has committed.
                    if has(bytes, COMMIT) {
                        return;
                    }
                    continue;
                }
                if to_client.write_all(bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// What was read; never, while the wire is silent.
async fn passed<'b>(
    read: std::io::Result<usize>,
    buffer: &'b [u8],
    wire: &Wire,
    made_at: u64,
) -> Option<&'b [u8]> {
    let length = read.ok().filter(|length| *length > 0)?;
    if wire.mode.load(Ordering::Acquire) == SILENT || wire.freezes.load(Ordering::Acquire) > made_at {
        std::future::pending::<()>().await;
    }
    Some(&buffer[..length])
}

impl Wire {
    fn takes_this_commit(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.commits_to_lose.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok()
    }
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}
