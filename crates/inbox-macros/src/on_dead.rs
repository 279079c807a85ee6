//! Whether a dead letter frees its key: `release` or `block`.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Result};
use syn::{Error, Ident, LitStr, token};

use crate::words;

const WORDS: [&str; 2] = ["release", "block"];
const FORMS: &str =
    "`release`, so that later messages of its key go on, or `block`, so that they wait until a person acts";

/// What `on_dead =` says. The span is that of its word.
pub(crate) enum OnDead {
    Release(Span),
    Block(Span),
}

impl OnDead {
    pub(crate) fn parse(input: ParseStream<'_>) -> Result<Self> {
        let forms = |span| Error::new(span, format!("`on_dead` can be {FORMS}"));
        if input.peek(LitStr) {
            let quoted: LitStr = input.parse()?;
            let text = quoted.value();
            return Err(if WORDS.contains(&&*text) {
                Error::new(quoted.span(), format!("without quotes: `on_dead = {text}`"))
            } else {
                forms(quoted.span())
            });
        }
        let word = input.call(Ident::parse_any).map_err(|error| forms(error.span()))?;
        let (text, span) = (word.to_string(), word.span());
        let on_dead = match &*text {
            "release" => Self::Release(span),
            "block" => Self::Block(span),
            _ => {
                let near = words::near(&text, WORDS).map(|near| format!(", did you mean `{near}`?"));
                let near = near.unwrap_or_default();
                return Err(Error::new(
                    span,
                    format!("unknown word `{text}`{near} (`on_dead` can be {FORMS})"),
                ));
            }
        };
        if input.peek(token::Paren) {
            return Err(Error::new(span, format!("`{text}` takes no arguments: write `on_dead = {text}`")));
        }
        Ok(on_dead)
    }
}
