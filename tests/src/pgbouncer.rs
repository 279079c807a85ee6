//! A pgbouncer in transaction mode in front of a Postgres, as Debian packages it.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use crate::wait;

/// A process of its own. Killed when it is dropped.
pub struct PgBouncer {
    child: Child,
    folder: TempDir,
    server: String,
    /// The database's address through it.
    pub url: String,
}

impl PgBouncer {
    /// In front of this database, with so many connections to it.
    pub async fn to(database: &str, connections: usize) -> Self {
        install().await;
        let (scheme, rest) = database.split_once("://").expect("an address is a URL");
        let (user, place) = rest.split_once('@').expect("with a user");
        let (server, name) = place.split_once('/').expect("an address ends with /database");
        let (host, port) = server.split_once(':').expect("with a port");
        let own = free_address().await;
        let folder = TempDir::new().expect("a folder for its files");
        // It may run as another user, since it refuses to be root.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("it is ours");
        let users = folder.path().join("users");
        std::fs::write(&users, format!("\"{user}\" \"\"\n")).expect("it can be written");
        let settings = format!(
            "[databases]\n* = host={host} port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             auth_type = trust\nauth_file = {}\nunix_socket_dir =\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 500\n",
            own.port(),
            users.display(),
        );
        std::fs::write(folder.path().join("settings"), settings).expect("it can be written");
        let url = format!("{scheme}://{user}@{own}/{name}?sslmode=disable");
        let child = start(&folder);
        let mut bouncer = Self { child, folder, server: own.to_string(), url };
        bouncer.answers().await;
        bouncer
    }

    /// Kills it and starts it again: every connection is lost, and the server is well.
    pub async fn restart(&mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it is gone");
        self.child = start(&self.folder);
        self.answers().await;
    }

    async fn answers(&mut self) {
        let log = self.folder.path().join("log");
        let (child, server) = (&mut self.child, &self.server);
        wait::until("pgbouncer answers", async || {
            let ended = child.try_wait().expect("it can be asked");
            assert!(ended.is_none(), "{ended:?}: {}", std::fs::read_to_string(&log).unwrap_or_default());
            TcpStream::connect(server).await.is_ok()
        })
        .await;
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
        let ended = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!("--- the log of pgbouncer, {ended:?} ---\n{log}");
        }
    }
}

/// Below the ports of clients: who looks for an answer at one of those may find himself.
async fn free_address() -> SocketAddr {
    loop {
        let address = SocketAddr::from(([127, 0, 0, 1], fastrand::u16(20000..32000)));
        if TcpListener::bind(address).await.is_ok() {
            return address;
        }
    }
}

/// Once for all tests: Debian's installer refuses a second one beside it. The script says what is missing where
/// it cannot install it.
async fn install() {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let once = async || {
        let script = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/install"));
        let run = move || Command::new(script).arg("pgbouncer").output();
        let installed = tokio::task::spawn_blocking(run).await.expect("no panic");
        let installed = installed.expect("tests/install can be run");
        let said = String::from_utf8_lossy(&installed.stderr).into_owned();
        assert!(installed.status.success(), "{said}");
    };
    INSTALLED.get_or_init(once).await;
}

fn start(folder: &TempDir) -> Child {
    // Debian has it where only root looks.
    let debian = Path::new("/usr/sbin/pgbouncer");
    let program = if debian.exists() { debian } else { Path::new("pgbouncer") };
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        command.args(["-u", "postgres"]);
    }
    let log = std::fs::File::create(folder.path().join("log")).expect("it can be written");
    let child = command.arg(folder.path().join("settings")).stdin(Stdio::null());
    child.stdout(Stdio::null()).stderr(log).spawn().expect("pgbouncer starts")
}
