//! Times, as they are written: `"30s"`.

use std::time::Duration;

use syn::{Error, Expr, ExprLit, Lit};

use crate::valid::plain;

/// The time that `attribute` says; `example` shows how it is written.
pub(crate) fn time(attribute: &str, example: &str, expr: &Expr) -> Result<Duration, Error> {
    let problem = match plain(expr) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => match humantime::parse_duration(&text.value()) {
            Ok(time) => return Ok(time),
            Err(error) => {
                let text = text.value();
                format!(
                    "{text:?} is no time ({error}): write it as in `{example}`, `\"500ms\"` or `\"1m 30s\"`"
                )
            }
        },
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            let unit = if number.suffix().is_empty() { "s" } else { number.suffix() };
            format!(
                "a time is written in quotes, with its unit: `{attribute} = \"{}{unit}\"`",
                number.base10_digits()
            )
        }
        _ => format!("a time is written as a string, with its unit: `{example}`"),
    };
    Err(Error::new_spanned(expr, problem))
}
