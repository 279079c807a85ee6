//! How a failing message is tried again: `retry(max_attempts = 10, max_elapsed = "24h")`.

use std::time::Duration;

use syn::ext::IdentExt;
use syn::parse::{ParseStream, Result};
use syn::{Error, Expr, ExprLit, ExprUnary, Ident, Lit, Token, UnOp, parenthesized, token};

use crate::attr::skip_item;
use crate::errors::Errors;
use crate::time::time;
use crate::valid::plain;
use crate::words;

/// Every part: the fields of `RetryPolicy`.
pub(crate) static PARTS: [Known; 6] = [
    Known::attempts("max_attempts", "max_attempts = 25").above_zero(),
    Known::time("max_elapsed", r#"max_elapsed = "24h""#),
    Known::time("base", r#"base = "1s""#).above_zero(),
    Known::time("cap", r#"cap = "10m""#).above_zero(),
    Known::attempts("in_place", "in_place = 3"),
    Known::attempts("constraint_attempts", "constraint_attempts = 5").above_zero(),
];

/// A part that can be given, and what can be its value.
pub(crate) struct Known {
    name: &'static str,
    example: &'static str,
    kind: Kind,
    zero: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Attempts,
    Time,
}

impl Known {
    const fn attempts(name: &'static str, example: &'static str) -> Self {
        Self { name, example, kind: Kind::Attempts, zero: true }
    }

    const fn time(name: &'static str, example: &'static str) -> Self {
        Self { name, example, kind: Kind::Time, zero: true }
    }

    const fn above_zero(self) -> Self {
        Self { zero: false, ..self }
    }
}

/// No time of a policy is longer: the same year as in inbox-core.
const YEAR: Duration = Duration::from_hours(24 * 365);

/// What `retry(…)` says, as it was written: the parts that could be read.
#[derive(Default)]
pub(crate) struct Retry(Vec<Part>);

struct Part {
    word: Ident,
    known: &'static Known,
    value: Expr,
}

/// A part's value. What a number that is no literal says is checked when the inbox starts.
pub(crate) enum Value<'a> {
    Number(&'a Expr),
    Time(Duration),
}

impl Retry {
    pub(crate) fn parse(&mut self, attribute: &Ident, input: ParseStream<'_>) -> Result<()> {
        let example = words::example("retry");
        if !input.peek(token::Paren) {
            let without = if input.peek(Token![=]) { ", without a `=`" } else { "" };
            let message = format!("`retry` takes its parts in parentheses{without}: `{example}`");
            return Err(Error::new(attribute.span(), message));
        }
        let list;
        let paren = parenthesized!(list in input);
        if list.is_empty() {
            return Err(Error::new(
                paren.span.join(),
                format!(
                    "`retry()` says nothing: give at least one part, as in `{example}` (there are {})",
                    parts()
                ),
            ));
        }
        let mut errors = Errors::default();
        while !list.is_empty() {
            if let Err(error) = self.part(&list) {
                errors.push(error);
                skip_item(&list)?;
            } else if !list.is_empty() && !list.peek(Token![,]) {
                errors.push(list.error("expected `,` before the next part"));
                skip_item(&list)?;
            }
            list.parse::<Option<Token![,]>>()?;
        }
        errors.or(())
    }

    fn part(&mut self, list: ParseStream<'_>) -> Result<()> {
        let word = list.call(Ident::parse_any).map_err(|error| {
            Error::new(
                error.span(),
                format!("expected a part of `retry`, as in `max_attempts = 25` (there are {})", parts()),
            )
        })?;
        let Some(known) = part(&word.to_string()) else { return Err(unknown(&word)) };
        let Known { name, example, .. } = *known;
        if self.0.iter().any(|part| part.known.name == name) {
            return Err(Error::new(word.span(), format!("`{name}` is here for the second time: keep one")));
        }
        let eq = list.parse::<Option<Token![=]>>()?;
        if eq.is_none() || list.is_empty() || list.peek(Token![,]) {
            return Err(Error::new(word.span(), format!("`{name}` needs a value after a `=`: `{example}`")));
        }
        self.0.push(Part { word, known, value: list.parse()? });
        Ok(())
    }

    /// The fields of the policy, if they can be so.
    pub(crate) fn check(&self) -> Result<Vec<(&Ident, Value<'_>)>> {
        let mut errors = Errors::default();
        let mut fields = Vec::new();
        for part in &self.0 {
            match part.check() {
                Ok(value) => fields.push((&part.word, value)),
                Err(error) => errors.push(error),
            }
        }
        errors.or(fields)
    }
}

impl Part {
    fn check(&self) -> Result<Value<'_>> {
        match self.known.kind {
            Kind::Attempts => self.number().map(|()| Value::Number(&self.value)),
            Kind::Time => self.time().map(Value::Time),
        }
    }

    fn number(&self) -> Result<()> {
        let Known { name, example, zero, .. } = *self.known;
        let wanted = || {
            let least = if zero { "0" } else { "1" };
            format!("`{name}` wants a number of attempts, {least} or more: `{example}`")
        };
        let problem = match plain(&self.value) {
            Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => match number.base10_parse::<u32>() {
                Ok(0) if !zero => {
                    format!("no message is handled in zero attempts: `{name} = 1` tries once")
                }
                Ok(_) => return Ok(()),
                Err(_) => format!("too large a number of attempts: {} at most", u32::MAX),
            },
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => match text.value().parse::<u32>() {
                Ok(number) => format!("without quotes: `{name} = {number}`"),
                Err(_) => wanted(),
            },
            Expr::Lit(_) | Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => wanted(),
            _ => return Ok(()),
        };
        Err(Error::new_spanned(&self.value, problem))
    }

    fn time(&self) -> Result<Duration> {
        let Known { name, example, zero, .. } = *self.known;
        let time = time(name, example, &self.value)?;
        let problem = if time > YEAR {
            format!(
                "longer than 365 days: a unit was mistaken (`m` is a minute, `M` a month), or nobody would ever know: \
                 `{example}`"
            )
        } else if time.is_zero() && !zero {
            format!("a failing message would be tried again without a pause: `{example}`")
        } else {
            return Ok(time);
        };
        Err(Error::new_spanned(&self.value, problem))
    }
}

/// Whether this is the name of a part.
pub(crate) fn is_part(word: &str) -> bool {
    part(word).is_some()
}

fn part(word: &str) -> Option<&'static Known> {
    PARTS.iter().find(|known| known.name == word)
}

/// All parts, for an error's text.
fn parts() -> String {
    words::list(PARTS.iter().map(|known| known.name))
}

fn unknown(word: &Ident) -> Error {
    let text = word.to_string();
    if words::attribute(&text).is_some() {
        return Error::new(
            word.span(),
            format!("`{text}` is an attribute of its own: write it next to `retry(…)`, not in it"),
        );
    }
    let near = words::near(&text, PARTS.iter().map(|known| known.name));
    let hint = near.map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
    Error::new(word.span(), format!("unknown part `{text}` of `retry`{hint} (there are {})", parts()))
}
