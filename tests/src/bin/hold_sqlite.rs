//! Another process that has an `SQLite` store: opens the file given, says so, and holds it until it
//! is killed.

use std::process::ExitCode;

use inbox_core::SqliteStore;

#[tokio::main]
async fn main() -> ExitCode {
    let path = std::env::args().nth(1).unwrap_or_default();
    match SqliteStore::connect(&path).await {
        Ok(_store) => {
            println!("held");
            std::future::pending().await
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
