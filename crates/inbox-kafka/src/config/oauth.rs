//! OAUTHBEARER: where tokens come from.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

/// A token of an identity provider, see [`KafkaConfig::oauth`](super::KafkaConfig::oauth).
#[derive(Clone)]
#[non_exhaustive]
pub struct OauthToken {
    /// What the broker is shown, mostly a signed JWT. Visible ASCII characters.
    pub token: String,
    /// Who it is for, as librdkafka names it in its logs. The broker reads the token, not this.
    pub principal: String,
    /// How long it is valid, counted from when it was asked for: an identity provider's `expires_in`.
    pub lifetime: Duration,
}

impl OauthToken {
    /// A token for a principal, valid this long from when it was asked for.
    pub fn new(token: impl Into<String>, principal: impl Into<String>, lifetime: Duration) -> Self {
        Self { token: token.into(), principal: principal.into(), lifetime }
    }
}

/// Without the token.
impl fmt::Debug for OauthToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthToken")
            .field("principal", &self.principal)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

type Fetched = Result<OauthToken, Box<dyn Error + Send + Sync>>;

/// Asks for a token.
#[derive(Clone)]
pub(crate) struct TokenSource(Arc<dyn Fn() -> BoxFuture<'static, Fetched> + Send + Sync>);

impl TokenSource {
    pub(super) fn new<F, Answer, E>(fetch: F) -> Self
    where
        F: Fn() -> Answer + Send + Sync + 'static,
        Answer: Future<Output = Result<OauthToken, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move || fetch().map(|answer| answer.map_err(Into::into)).boxed()))
    }

    pub(crate) fn fetch(&self) -> BoxFuture<'static, Fetched> {
        (self.0)()
    }
}
