//! The database's file: its address, and the lock that keeps a second process out.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::store::StoreError;

/// A database file that this process has to itself.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    path: String,
    /// Transactions take turns, see [`SqliteConn`](super::SqliteConn).
    pub(super) turns: Arc<Mutex<()>>,
    /// Held as long as a store or one of its connections lives. The operating system releases it
    /// when the process ends, however it ends.
    _lock: File,
}

impl DatabaseFile {
    /// Checks the address and takes the lock.
    pub(super) fn open(address: &str) -> Result<Self, StoreError> {
        let path = resolved(address)?;
        let lock = lock(&path)?;
        Ok(Self { path, turns: Arc::default(), _lock: lock })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Fails when the file has gone: opening it would make an empty database.
    pub(super) fn check_exists(&self) -> Result<(), StoreError> {
        match Path::new(&self.path).try_exists() {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Connect(format!("the file {} has gone", self.path))),
            Err(error) => Err(StoreError::Connect(format!("{}: {error}", self.path))),
        }
    }
}

const LOCK_SUFFIX: &str = ".inbox-lock";

/// The file's path without links: the lock must be the same however the path is written.
fn resolved(address: &str) -> Result<String, StoreError> {
    let path = address.strip_prefix("sqlite://").unwrap_or(address);
    let wrong =
        |what: &str| Err(StoreError::Address(format!("{what}: write the path of a file, or sqlite://path")));
    if path.is_empty() {
        return wrong("it names no file");
    }
    if path.starts_with(":memory:") || path.starts_with("file:") {
        return wrong(
            "a database in memory, or one by a file: URI, cannot be shared by connections and kept",
        );
    }
    if path.contains("://") {
        return wrong("it is the address of another database");
    }
    if path.contains('\0') {
        return wrong("it has a NUL byte in it");
    }
    let mut file = PathBuf::from(path);
    if file.is_dir() {
        return wrong(&format!("{path} is a folder"));
    }
    if let Ok(linked) = file.canonicalize() {
        file = linked;
    } else {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().map_err(|error| {
            StoreError::Address(format!("the folder {} of the database file: {error}", folder.display()))
        })?;
        let Some(name) = file.file_name() else { return wrong(&format!("{path} is no file's name")) };
        file = folder.join(name);
    }
    match file.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(path) => wrong(&format!("{} is not UTF-8", path.display())),
    }
}

/// The file is never deleted: a process that opened it just before would hold a lock on nothing.
fn lock(path: &str) -> Result<File, StoreError> {
    let name = format!("{path}{LOCK_SUFFIX}");
    let failed = |error| StoreError::Connect(format!("the lock file {name}: {error}"));
    let file =
        File::options().create(true).truncate(false).read(true).write(true).open(&name).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(failed(error)),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(format!(
            "the SQLite database {path} is in use by another process, or by another store of this one: on SQLite the \
             inbox runs in one process, which may clone its store; stop the other one, or use Postgres for several"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_name_no_file_are_refused_with_what_to_write() {
        for address in
            ["", "sqlite://", ":memory:", "sqlite://:memory:", "file:x.db", "postgres://h/d", "/", "a\0b"]
        {
            let error = resolved(address).expect_err(address).to_string();
            assert!(error.contains("sqlite://path"), "{address}: {error}");
        }
        let error = resolved("/no such folder/x.db").expect_err("no folder").to_string();
        assert!(error.contains("/no such folder"), "{error}");
    }

    #[test]
    fn a_path_is_the_same_however_it_is_written() {
        let plain = resolved("new.db").expect("a file here");
        assert!(Path::new(&plain).is_absolute());
        assert_eq!(resolved("sqlite://./new.db").expect("a file here"), plain);
        assert_eq!(resolved("src/../new.db").expect("a file here"), plain);
    }
}
