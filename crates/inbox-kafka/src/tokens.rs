//! OAUTHBEARER's tokens, fetched ahead: librdkafka asks on the thread that polls, which must not wait.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backon::BackoffBuilder as _;
use rdkafka::client::OAuthToken;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::config::{OauthToken, TokenSource};
use crate::error::Error;

/// How long one call may take.
const FETCH_LIMIT: Duration = Duration::from_secs(10);
/// Between two calls after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The next token is fetched after this part of the lifetime, in per cent: before librdkafka asks,
/// which it does after 80.
const FETCH_AFTER: u32 = 70;
/// A lifetime that says "for ever", with which nothing can be calculated.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// The present token, and the task that fetches the next one. It ends when this is dropped.
pub(crate) struct Tokens {
    present: Arc<Mutex<Present>>,
    _fetching: AbortOnDropHandle<()>,
}

struct Present {
    token: Valid,
    /// Why there is no younger one.
    problem: Option<String>,
}

/// A token that can be handed out.
#[derive(Debug)]
struct Valid {
    token: OauthToken,
    expires: SystemTime,
}

impl Tokens {
    /// Fetches the first token, patiently up to the limit.
    pub(crate) async fn begin(source: TokenSource, limit: Duration) -> Result<Arc<Self>, Error> {
        let mut last = None;
        let first = timeout(limit, fetch_patiently(&source, |problem| last = Some(problem))).await;
        let Ok(first) = first else {
            let reason = last.unwrap_or_else(|| "the call did not answer".into());
            return Err(Error::Token { reason, limit });
        };
        let wait = first.fetch_next_in();
        let present = Arc::new(Mutex::new(Present { token: first, problem: None }));
        let fetching = tokio::spawn(fetch_ahead(source, Arc::clone(&present), wait));
        Ok(Arc::new(Self { present, _fetching: AbortOnDropHandle::new(fetching) }))
    }

    /// The present token, for librdkafka.
    pub(crate) fn present(&self) -> Result<OAuthToken, String> {
        let present = lock(&self.present);
        let Valid { token, expires } = &present.token;
        if *expires <= SystemTime::now() {
            let why = present.problem.as_deref().unwrap_or("the next one is still on its way");
            return Err(format!("the last token has expired: {why}"));
        }
        let lifetime = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Ok(OAuthToken {
            token: token.token.clone(),
            principal_name: token.principal.clone(),
            lifetime_ms: i64::try_from(lifetime).unwrap_or(i64::MAX),
        })
    }
}

async fn fetch_ahead(source: TokenSource, present: Arc<Mutex<Present>>, mut wait: Duration) {
    loop {
        sleep(wait).await;
        let mut failed = false;
        let next = fetch_patiently(&source, |problem| {
            // Each failure is told, but only the first of several loudly.
            if std::mem::replace(&mut failed, true) {
                tracing::debug!(problem, "there is still no new OAuth token");
            } else {
                tracing::warn!(problem, "no new OAuth token: the present one is used until it expires");
            }
            lock(&present).problem = Some(problem);
        });
        let next = next.await;
        if failed {
            tracing::info!("there are OAuth tokens again");
        }
        wait = next.fetch_next_in();
        *lock(&present) = Present { token: next, problem: None };
    }
}

/// Asks until there is one.
async fn fetch_patiently(source: &TokenSource, mut tell: impl FnMut(String)) -> Valid {
    let waits = backon::ExponentialBuilder::new()
        .with_min_delay(FIRST_WAIT)
        .with_max_delay(LAST_WAIT)
        .with_jitter()
        .without_max_times()
        .build();
    for wait in waits {
        match fetch(source).await {
            Ok(token) => return token,
            Err(problem) => tell(problem),
        }
        sleep(wait).await;
    }
    unreachable!("the waits have no end")
}

async fn fetch(source: &TokenSource) -> Result<Valid, String> {
    let asked = SystemTime::now();
    let source = source.clone();
    // A task of its own: what panics in it, or holds up its thread, does so to nobody else.
    let call = AbortOnDropHandle::new(tokio::spawn(async move { source.fetch().await }));
    match timeout(FETCH_LIMIT, call).await {
        Ok(Ok(Ok(token))) => Valid::check(token, asked),
        Ok(Ok(Err(error))) => Err(causes(&*error)),
        Ok(Err(_)) => Err("the call panicked".into()),
        Err(_) => Err(format!("the call did not answer within {FETCH_LIMIT:?}")),
    }
}

impl Valid {
    /// librdkafka would refuse these too, and quote the token in its error.
    fn check(token: OauthToken, asked: SystemTime) -> Result<Self, String> {
        if token.token.is_empty() || !token.token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token consists of visible ASCII characters, this one does not".into());
        }
        if token.principal.contains('\0') {
            return Err("the token's principal contains a zero byte".into());
        }
        let expires = asked + token.lifetime.min(LONGEST);
        if expires <= SystemTime::now() {
            return Err("the token has expired already: give its lifetime from now on".into());
        }
        Ok(Self { token, expires })
    }

    fn fetch_next_in(&self) -> Duration {
        self.expires.duration_since(SystemTime::now()).unwrap_or_default() * FETCH_AFTER / 100
    }
}

fn lock(present: &Mutex<Present>) -> std::sync::MutexGuard<'_, Present> {
    present.lock().unwrap_or_else(PoisonError::into_inner)
}

fn causes(error: &(dyn std::error::Error + Send + Sync)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_librdkafka_would_quote_is_refused_without_its_text() {
        for token in ["", "secret\u{e9}", "sec\0ret", "two words"] {
            let token = OauthToken::new(token, "p", Duration::from_mins(1));
            let problem = Valid::check(token, SystemTime::now()).expect_err("it cannot be sent");
            assert!(!problem.contains("sec") && !problem.contains("two"), "{problem}");
        }
    }

    #[test]
    fn lifetimes_count_from_the_question() {
        let asked = SystemTime::now() - Duration::from_secs(5);
        assert!(Valid::check(OauthToken::new("t", "p", Duration::from_secs(4)), asked).is_err());
        let valid = Valid::check(OauthToken::new("t", "p", Duration::from_secs(15)), asked).expect("valid");
        assert!(valid.fetch_next_in() <= Duration::from_secs(7), "{:?}", valid.fetch_next_in());
        let ever = Valid::check(OauthToken::new("t", "p", Duration::MAX), asked).expect("valid");
        assert!(ever.fetch_next_in() > Duration::from_hours(24));
    }
}
