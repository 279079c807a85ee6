//! Where a new subscription begins: `committed`, `time(…)` and so on.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Result};
use syn::{Error, Expr, Ident, LitStr, parenthesized, token};

use crate::words;

const WORDS: [&str; 4] = ["committed", "earliest", "latest", "time"];
const FORMS: &str = "`committed`, `earliest`, `latest` or `time(Timestamp(…))`";
const TIME: &str = "a time in milliseconds since 1970: `time(Timestamp(1_790_000_000_000))`";

/// What `start =` says. The span is that of its word.
pub(crate) enum Start {
    Committed(Span),
    Earliest(Span),
    Latest(Span),
    Time(Span, Box<Expr>),
}

impl Start {
    pub(crate) fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            let quoted: LitStr = input.parse()?;
            let text = quoted.value();
            let message = if WORDS[..3].contains(&&*text) {
                format!("without quotes: `start = {text}`")
            } else {
                format!("the start can be {FORMS}")
            };
            return Err(Error::new(quoted.span(), message));
        }
        let word = input
            .call(Ident::parse_any)
            .map_err(|error| Error::new(error.span(), format!("the start can be {FORMS}")))?;
        let (text, span) = (word.to_string(), word.span());
        let start = match &*text {
            "committed" => Self::Committed(span),
            "earliest" => Self::Earliest(span),
            "latest" => Self::Latest(span),
            "time" => return time(span, input),
            _ => {
                let near = words::near(&text, WORDS).map(|near| format!(", did you mean `{near}`?"));
                let near = near.unwrap_or_default();
                return Err(Error::new(span, format!("unknown start `{text}`{near} (it can be {FORMS})")));
            }
        };
        if input.peek(token::Paren) {
            return Err(Error::new(span, format!("`{text}` takes no arguments: write `start = {text}`")));
        }
        Ok(start)
    }
}

fn time(word: Span, input: ParseStream<'_>) -> Result<Start> {
    let which = || Error::new(word, format!("which time? Give {TIME}"));
    if !input.peek(token::Paren) {
        return Err(which());
    }
    let args;
    parenthesized!(args in input);
    if args.is_empty() {
        return Err(which());
    }
    if args.peek(LitStr) {
        return Err(args.error(format!("not a text, but {TIME}")));
    }
    let time = args.parse()?;
    if args.is_empty() {
        Ok(Start::Time(word, Box::new(time)))
    } else {
        Err(args.error("it begins at one time: nothing can follow it"))
    }
}
