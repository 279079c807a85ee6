//! The database's address: tokio-postgres's configuration, and the TLS settings that it does not
//! parse itself.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode as DriverSslMode;

use crate::store::StoreError;

use super::tls::{self, Connector};

/// What `sslmode` says, with libpq's meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SslMode {
    /// Never TLS.
    Disable,
    /// TLS without verification where the server offers it.
    #[default]
    Prefer,
    /// TLS without verification.
    Require,
    /// TLS; the certificate must be signed by a known authority.
    VerifyCa,
    /// TLS; the certificate must be signed by a known authority for this very host.
    VerifyFull,
}

impl FromStr for SslMode {
    type Err = StoreError;

    fn from_str(mode: &str) -> Result<Self, StoreError> {
        Ok(match mode {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            other => {
                return Err(StoreError::Address(format!(
                    "sslmode={other} is unknown: use disable, prefer, require, verify-ca or verify-full"
                )));
            }
        })
    }
}

/// How long a prepared statement is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Keeping {
    /// As long as its connection.
    #[default]
    Connection,
    /// To the end of its transaction.
    Transaction,
}

impl FromStr for Keeping {
    type Err = StoreError;

    fn from_str(keeping: &str) -> Result<Self, StoreError> {
        match keeping {
            "connection" => Ok(Self::Connection),
            "transaction" => Ok(Self::Transaction),
            other => Err(StoreError::Address(format!(
                "prepared_statements={other} is unknown: use connection or transaction"
            ))),
        }
    }
}

/// A checked address.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) connector: Option<Connector>,
    pub(super) keeping: Keeping,
}

impl Address {
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        check_encoding(url)?;
        let (rest, Ours { mode, root, keeping }) = take_ours(url)?;
        let mut config = Config::from_str(&rest).map_err(|error| {
            let cause =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            let cause = without_quotes(&cause);
            StoreError::Address(format!("{cause}: write postgres://user:password@host:port/database"))
        })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Self::CONNECT_TIMEOUT);
        }
        // A peer that is gone without a word is noticed within half a minute, not after the system's two
        // hours.
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5));
        config.tcp_user_timeout(Duration::from_secs(30));
        if config.get_application_name().is_none() {
            config.application_name("inbox");
        }
        config.ssl_mode(match mode {
            SslMode::Disable => DriverSslMode::Disable,
            SslMode::Prefer => DriverSslMode::Prefer,
            _ => DriverSslMode::Require,
        });
        let connector = match mode {
            SslMode::Disable => None,
            _ => Some(tls::connector(mode, root.as_deref())?),
        };
        Ok(Self { config, connector, keeping })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password: the driver's own Debug of the configuration leaves it out too.
        f.debug_struct("Address")
            .field("hosts", &self.config.get_hosts())
            .field("database", &self.config.get_dbname())
            .finish_non_exhaustive()
    }
}

/// A password with a character that ends it in an address would be taken for a host or a database, and be
/// shown as such.
fn check_encoding(url: &str) -> Result<(), StoreError> {
    let Some((_, address)) = url.split_once("://").filter(|_| is_url(url)) else { return Ok(()) };
    let (place, rest) = address.split_at(address.find(['/', '?', '#']).unwrap_or(address.len()));
    match place.matches('@').count() {
        0 if rest.contains('@') => {}
        0 | 1 => return Ok(()),
        _ => {}
    }
    Err(StoreError::Address(
        "an @ where none can be: in user and password write % as %25, @ as %40, : as %3A, / as %2F, ? as %3F and # as \
         %23"
            .into(),
    ))
}

/// The driver quotes what it takes for the name of a setting. That may be anything, a whole address with
/// its password too.
fn without_quotes(cause: &str) -> String {
    let is_name = |quoted: &str| quoted.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let parts = cause.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 0 || is_name(part) { part } else { "…" })
        .collect::<Vec<_>>()
        .join("`")
}

/// What the driver does not know.
#[derive(Default)]
struct Ours {
    mode: SslMode,
    root: Option<PathBuf>,
    keeping: Keeping,
}

/// Takes `sslmode`, `sslrootcert` and `prepared_statements` out of an address in either form.
fn take_ours(url: &str) -> Result<(String, Ours), StoreError> {
    let (base, settings, separator) = match url.split_once('?') {
        Some((base, query)) if is_url(url) => (base, query.split('&').collect::<Vec<_>>(), "&"),
        _ if is_url(url) => (url, Vec::new(), "&"),
        _ => ("", url.split_whitespace().collect(), " "),
    };
    let mut ours = Ours::default();
    let mut kept = Vec::new();
    for setting in settings {
        match setting.split_once('=') {
            Some(("sslmode", value)) => ours.mode = value.parse()?,
            Some(("sslrootcert", value)) => {
                ours.root = Some(PathBuf::from(percent_decoded(value, is_url(url))?));
            }
            Some(("prepared_statements", value)) => ours.keeping = value.parse()?,
            _ => kept.push(setting),
        }
    }
    let rest = kept.join(separator);
    let rest = match (base.is_empty(), rest.is_empty()) {
        (true, _) => rest,
        (false, true) => base.to_owned(),
        (false, false) => format!("{base}?{rest}"),
    };
    Ok((rest, ours))
}

fn is_url(address: &str) -> bool {
    address.starts_with("postgres://") || address.starts_with("postgresql://")
}

fn percent_decoded(value: &str, in_url: bool) -> Result<String, StoreError> {
    if !in_url || !value.contains('%') {
        return Ok(value.to_owned());
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(
            byte.ok_or_else(|| StoreError::Address("sslrootcert is not percent-encoded rightly".into()))?,
        );
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| StoreError::Address("sslrootcert is not UTF-8".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_does_not_know_is_taken_out_of_both_forms() {
        let (rest, ours) =
            take_ours("postgres://u@h/d?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Ftmp%2Fca.pem")
                .expect("a good address");
        assert_eq!((rest.as_str(), ours.mode), ("postgres://u@h/d?connect_timeout=3", SslMode::VerifyFull));
        assert_eq!(ours.root, Some(PathBuf::from("/tmp/ca.pem")));

        let (rest, ours) = take_ours("host=h sslmode=disable prepared_statements=transaction user=u")
            .expect("a good address");
        assert_eq!((rest.as_str(), ours.mode), ("host=h user=u", SslMode::Disable));
        assert_eq!(ours.keeping, Keeping::Transaction);
    }

    #[test]
    fn a_wrong_address_is_refused_with_what_to_write_and_without_its_password() {
        let error = Address::parse("postgres://u:secret@h:port/d").expect_err("no number").to_string();
        assert!(error.contains("postgres://user:password@host:port/database"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        for address in [
            "postgres:/u:secret@h/d?x=1",
            "postgres://u:sec@secret@h/d",
            "postgres://u:1/secret@h/d",
            "postgres://u:1?secret=x@h/d",
            "host=h secret'=1",
            "host=h password='secret",
        ] {
            let error = Address::parse(address).expect_err(address).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let error = Address::parse("postgres://u:secret@h/d?no_such=1").expect_err("unknown").to_string();
        assert!(error.contains("no_such"), "{error}");
        let good = Address::parse("postgres://u:a%40%2Fb@h/d?application_name=a@b").expect("encoded");
        assert_eq!(good.config.get_password(), Some(&b"a@/b"[..]));
        let error = Address::parse("postgres://h/d?sslmode=on").expect_err("no mode").to_string();
        assert!(error.contains("verify-full"), "{error}");
        let error =
            Address::parse("postgres://h/d?prepared_statements=off").expect_err("no word").to_string();
        assert!(error.contains("connection or transaction"), "{error}");
    }
}
