//! Which statements a handler may not send: those that would end its transaction, or leave
//! something on the connection for the next one.

/// What the words mean to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    #[cfg(feature = "postgres")]
    Postgres,
    #[cfg(feature = "sqlite")]
    Sqlite,
}

impl Dialect {
    fn comments_nest(self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => true,
            #[cfg(feature = "sqlite")]
            Self::Sqlite => false,
        }
    }
}

const REFUSED: &[&str] = &[
    "BEGIN",
    "START",
    "COMMIT",
    "END",
    "ROLLBACK",
    "ABORT",
    "SAVEPOINT",
    "RELEASE",
    "PREPARE",
    "EXECUTE",
    "DEALLOCATE",
    "SET",
    "RESET",
    "DISCARD",
];

#[cfg(feature = "sqlite")]
const REFUSED_BY_SQLITE: &[&str] = &["PRAGMA", "ATTACH", "DETACH", "VACUUM"];

/// Why this statement is refused, if it is.
pub(crate) fn first_keyword_problem(sql: &str, dialect: Dialect) -> Option<String> {
    let keyword = first_keyword(sql, dialect);
    let listed = |words: &[&str]| words.iter().any(|word| keyword.eq_ignore_ascii_case(word));
    let refused = listed(REFUSED)
        || match dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => false,
            #[cfg(feature = "sqlite")]
            Dialect::Sqlite => listed(REFUSED_BY_SQLITE),
        };
    refused.then(|| {
        let keyword = keyword.to_ascii_uppercase();
        format!(
            "a handler cannot send {keyword}: the inbox begins and commits the transaction, so that effect and receipt \
             stay together; for a partial rollback use tx.savepoint(), release() and rollback_to()"
        )
    })
}

/// The first word after white space, semicolons, comments and parentheses.
fn first_keyword(sql: &str, dialect: Dialect) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';' || c == '(');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = after_block_comment(comment, dialect);
        } else {
            break;
        }
    }
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    &rest[..end]
}

/// What follows a block comment whose opening is already gone; they nest in Postgres, not in
/// `SQLite`, and one that never ends hides everything.
fn after_block_comment(mut rest: &str, dialect: Dialect) -> &str {
    let nests = dialect.comments_nest();
    let mut depth = 1;
    while depth > 0 {
        let (open, close) = (rest.find("/*"), rest.find("*/"));
        match (open, close) {
            (Some(open), Some(close)) if nests && open < close => {
                depth += 1;
                rest = &rest[open + 2..];
            }
            (_, Some(close)) => {
                depth -= 1;
                rest = &rest[close + 2..];
            }
            (_, None) => return "",
        }
    }
    rest
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    fn refused(sql: &str) -> bool {
        first_keyword_problem(sql, Dialect::Postgres).is_some()
    }

    #[test]
    fn transaction_control_is_found_behind_comments_and_case() {
        for sql in [
            "COMMIT",
            " commit;",
            "/* a /* nested */ comment */ Rollback",
            "-- one\n-- two\nsavepoint x",
            ";;END",
            "set local statement_timeout = 0",
            "DISCARD ALL",
            "prepare x as select 1",
        ] {
            assert!(refused(sql), "{sql}");
        }
    }

    #[test]
    fn ordinary_statements_pass() {
        for sql in [
            "UPDATE accounts SET cents = 1",
            "select 'COMMIT'",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "(select 1) union (select 2)",
            "SETTINGS",
            "-- COMMIT\nINSERT INTO t VALUES (1)",
            "",
        ] {
            assert!(!refused(sql), "{sql}");
        }
    }
}
