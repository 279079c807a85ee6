//! Whether what was written can be so. What a literal says is checked here, with the rules that
//! inbox-core has for every definition; what an expression says, when the inbox starts.

use std::time::Duration;

use syn::{Error, Expr, ExprLit, ExprUnary, GenericArgument, Ident, Lit, PathArguments, Type, UnOp};

use crate::attr::Attrs;
use crate::errors::Errors;
use crate::on_dead::OnDead;
use crate::retry::{Retry, Value};
use crate::rule::{Rule, Slot, Source, Wanted};
use crate::start::Start;
use crate::time::time;
use crate::words;

/// A subscription that has all it needs.
pub(crate) struct Subscription<'a> {
    pub(crate) name: &'a Expr,
    pub(crate) topics: &'a [Expr],
    pub(crate) patterns: &'a [Expr],
    pub(crate) payload: Payload<'a>,
    pub(crate) id: &'a Rule,
    pub(crate) key: &'a Rule,
    pub(crate) codec: Option<&'a Expr>,
    pub(crate) filter: Option<&'a Expr>,
    pub(crate) max_batch: Option<&'a Expr>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) start: Option<&'a Start>,
    /// The fields of the policy that are given.
    pub(crate) retry: Option<Vec<(&'a Ident, Value<'a>)>>,
    pub(crate) on_dead: Option<&'a OnDead>,
}

/// The payload's type.
pub(crate) struct Payload<'a> {
    pub(crate) whole: &'a Type,
    /// `T` of an `Option<T>`, whose `None` is a tombstone.
    pub(crate) of_option: Option<&'a Type>,
}

impl<'a> Payload<'a> {
    fn of(whole: &'a Type) -> Self {
        Self { whole, of_option: in_option(whole) }
    }
}

pub(crate) fn check<'a>(
    ident: &Ident,
    attrs: &'a Attrs,
    mut errors: Errors,
) -> Result<Subscription<'a>, Error> {
    let mut note = |result: Result<(), Error>| result.unwrap_or_else(|error| errors.push(error));

    note(missing(ident, attrs));
    note(attrs.name.as_ref().map_or(Ok(()), name));
    for (at, topic) in attrs.topics.iter().enumerate() {
        note(self::topic(topic, &attrs.topics[..at]));
    }
    for pattern in &attrs.patterns {
        note(self::pattern(pattern));
    }
    note(attrs.max_batch.as_ref().map_or(Ok(()), max_batch));
    let time_limit = attrs.time_limit.as_ref().map(time_limit).transpose();
    let time_limit = time_limit.unwrap_or_else(|error| {
        note(Err(error));
        None
    });
    let retry = attrs.retry.as_ref().map(Retry::check).transpose();
    let retry = retry.unwrap_or_else(|error| {
        note(Err(error));
        None
    });
    let payload = attrs.payload.as_ref().map(Payload::of);
    for (wanted, rule) in [(Wanted::Id, &attrs.id), (Wanted::Key, &attrs.key)] {
        if let Some(rule) = rule {
            note(tombstone(wanted, rule, payload.as_ref()));
        }
    }

    let subscription = (|| {
        Some(Subscription {
            name: attrs.name.as_ref()?,
            topics: &attrs.topics,
            patterns: &attrs.patterns,
            payload: payload?,
            id: attrs.id.as_ref()?,
            key: attrs.key.as_ref()?,
            codec: attrs.codec.as_ref(),
            filter: attrs.filter.as_ref(),
            max_batch: attrs.max_batch.as_ref(),
            time_limit,
            start: attrs.start.as_ref(),
            retry,
            on_dead: attrs.on_dead.as_ref(),
        })
    })();
    errors.or(())?;
    // What is not there was either reported as missing or failed to parse.
    subscription.ok_or_else(|| Error::new(ident.span(), "`#[inbox(…)]` is incomplete"))
}

/// One error for all that is missing: leaving `#[inbox]` out is one mistake.
fn missing(ident: &Ident, attrs: &Attrs) -> Result<(), Error> {
    let needs = [
        ("name", "a durable name: it is stored with every message, renaming it handles all of them again"),
        ("topic", "what it consumes; may come more than once"),
        ("payload", "what a record's value is decoded to"),
        ("id", "what names a message, so that its effect happens once"),
        ("key", "what orders messages: those with the same key are handled one after the other"),
    ];
    let missing: Vec<_> = needs
        .iter()
        .filter(|(attribute, _)| !attrs.tried(attribute))
        .map(|(attribute, why)| format!("\n    {:<31}// {why}", format!("{},", words::example(attribute))))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        ident.span(),
        format!("`#[inbox(…)]` of `{ident}` does not say all it has to; add{}", missing.concat()),
    ))
}

fn name(expr: &Expr) -> Result<(), Error> {
    let Some(name) = text("name", expr)? else { return Ok(()) };
    let odd = name.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-:/".contains(*c)));
    let problem = match odd {
        _ if name.is_empty() => {
            "the name is empty: give the subscription a durable one, as in `name = \"payments.reserve\"`"
                .into()
        }
        _ if name.len() > 200 => format!("the name has {} bytes: 200 at most", name.len()),
        Some(odd) => format!("the name has {odd:?} in it: use ASCII letters, digits and any of . _ - : /"),
        None => return Ok(()),
    };
    Err(Error::new_spanned(expr, problem))
}

fn topic(expr: &Expr, before: &[Expr]) -> Result<(), Error> {
    let Some(topic) = text("topic", expr)? else { return Ok(()) };
    let odd = topic.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-".contains(*c)));
    let problem = match odd {
        _ if topic.is_empty() => {
            "the topic's name is empty: write it as in `topic = \"orders.placed\"`".into()
        }
        _ if topic.len() > 249 => {
            format!("the topic's name has {} bytes: Kafka takes 249 at most", topic.len())
        }
        _ if topic == "." || topic == ".." => format!("Kafka has no topic `{topic}`: write a topic's name"),
        Some(odd) => format!(
            "the topic's name has {odd:?} in it: Kafka takes ASCII letters, digits and any of . _ -; for several \
             topics write `topic_pattern = \"orders\\\\..*\"`"
        ),
        None if before
            .iter()
            .any(|other| matches!(text("topic", other), Ok(Some(other)) if other == topic)) =>
        {
            format!("the topic `{topic}` is here for the second time: keep one")
        }
        None => return Ok(()),
    };
    Err(Error::new_spanned(expr, problem))
}

/// Whether it can be read is told when the inbox starts: the derive has no regular expressions.
fn pattern(expr: &Expr) -> Result<(), Error> {
    match text("topic_pattern", expr)? {
        Some(pattern) if pattern.is_empty() => Err(Error::new_spanned(
            expr,
            format!("an empty pattern matches no topic: `{}`", words::example("topic_pattern")),
        )),
        _ => Ok(()),
    }
}

/// The literal's text; `None` for an expression, whose value only the running service knows.
fn text(attribute: &str, expr: &Expr) -> Result<Option<String>, Error> {
    match plain(expr) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(Some(text.value())),
        Expr::Lit(_) => Err(Error::new_spanned(
            expr,
            format!("`{attribute}` wants a string: `{}`", words::example(attribute)),
        )),
        _ => Ok(None),
    }
}

fn max_batch(expr: &Expr) -> Result<(), Error> {
    let problem = match plain(expr) {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => match number.base10_parse::<usize>() {
            Ok(0) => {
                "no message fits into a batch of zero: `max_batch = 1` gives each message a transaction of its own"
            }
            Ok(_) => return Ok(()),
            Err(_) => "too large a number of messages",
        },
        Expr::Lit(_) | Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => {
            "`max_batch` wants a number of messages, 1 or more: `max_batch = 100`"
        }
        _ => return Ok(()),
    };
    Err(Error::new_spanned(expr, problem))
}

fn time_limit(expr: &Expr) -> Result<Duration, Error> {
    let example = words::example("time_limit");
    let limit = time("time_limit", example, expr)?;
    if limit.is_zero() {
        let problem = format!("no handler ends within a time limit of zero: `{example}`");
        return Err(Error::new_spanned(expr, problem));
    }
    Ok(limit)
}

/// A tombstone has no payload: where the payload may be one, a payload rule says what else to take.
fn tombstone(wanted: Wanted, rule: &Rule, payload: Option<&Payload<'_>>) -> Result<(), Error> {
    let Source::Payload { field, tombstone } = &rule.source else { return Ok(()) };
    let (attribute, field) = (wanted.attribute(), field.name());
    let Some(tombstone) = tombstone else {
        if payload.is_none_or(|payload| payload.of_option.is_none()) {
            return Ok(());
        }
        let example = match wanted {
            Wanted::Id => r#"header("event-id")"#,
            Wanted::Key => "record",
        };
        return Err(Error::new_spanned(
            &rule.tokens,
            format!(
                "the payload is an `Option`, and its `None`, a tombstone, has no `{field}`: say where the {attribute} \
                 comes from then, as in `{attribute} = payload({field}, tombstone = {example})`; it can be {}",
                Slot { wanted, tombstone: true }.forms(),
            ),
        ));
    };
    match payload {
        Some(Payload { whole, of_option: None }) => {
            let payload = quote::quote!(#whole).to_string().replace(' ', "");
            Err(Error::new(
                tombstone.word.span(),
                format!(
                    "no tombstone becomes a message here: say `payload = Option<{payload}>` if it should, \
                     `{attribute} = payload({field})` if not"
                ),
            ))
        }
        _ => Ok(()),
    }
}

fn in_option(whole: &Type) -> Option<&Type> {
    let path = match whole {
        Type::Group(group) => return in_option(&group.elem),
        Type::Paren(paren) => return in_option(&paren.elem),
        Type::Path(path) if path.qself.is_none() => &path.path,
        _ => return None,
    };
    let last = path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(of)) if arguments.args.len() == 1 => Some(of),
        _ => None,
    }
}

/// The expression within the invisible group that a `macro_rules` variable leaves around it.
pub(crate) fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => plain(&group.expr),
        other => other,
    }
}
