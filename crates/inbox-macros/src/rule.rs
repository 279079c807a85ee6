//! Where ids and business keys come from: `header("…")`, `payload(field)` and so on.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Result};
use syn::{Error, Expr, ExprLit, ExprPath, Ident, Index, Lit, LitStr, Member, Token, parenthesized, token};

use crate::words;

/// What a rule gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Id,
    Key,
}

impl Wanted {
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Key => "key",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Id => Self::Key,
            Self::Key => Self::Id,
        }
    }
}

/// Where a rule stands: also behind `tombstone =`, where there is no payload.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) wanted: Wanted,
    pub(crate) tombstone: bool,
}

impl Slot {
    pub(crate) fn of(wanted: Wanted) -> Self {
        Self { wanted, tombstone: false }
    }

    fn words(self) -> &'static [&'static str] {
        match (self.wanted, self.tombstone) {
            (Wanted::Id, false) => &["header", "cloud_event", "offset", "payload"],
            (Wanted::Id, true) => &["header", "cloud_event", "offset"],
            (Wanted::Key, false) => &["record", "partition", "payload"],
            (Wanted::Key, true) => &["record", "partition"],
        }
    }

    /// What can be written, for an error's text.
    pub(crate) fn forms(self) -> &'static str {
        match (self.wanted, self.tombstone) {
            (Wanted::Id, false) => r#"`header("event-id")`, `cloud_event`, `payload(field)` or `offset`"#,
            (Wanted::Id, true) => r#"`header("event-id")`, `cloud_event` or `offset`"#,
            (Wanted::Key, false) => "`payload(field)`, `record` or `partition`",
            (Wanted::Key, true) => "`record` or `partition`",
        }
    }

    fn attribute(self) -> &'static str {
        self.wanted.attribute()
    }
}

/// A rule, with the tokens that errors about it point to.
pub(crate) struct Rule {
    pub(crate) source: Source,
    pub(crate) tokens: TokenStream,
}

pub(crate) enum Source {
    Header(Expr),
    CloudEvent,
    Offset,
    Record,
    Partition,
    Payload { field: FieldPath, tombstone: Option<Box<Tombstone>> },
}

/// `tombstone = …` in a payload rule: the rule for records without a payload.
pub(crate) struct Tombstone {
    pub(crate) word: Ident,
    pub(crate) rule: Rule,
}

/// A field of the payload, or one within it: `customer.id`.
pub(crate) struct FieldPath(pub(crate) Vec<Member>);

impl Rule {
    pub(crate) fn parse(slot: Slot, input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            let quoted: LitStr = input.parse()?;
            return Err(quoted_rule(slot, &quoted));
        }
        let word = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), format!("the {} can be {}", slot.attribute(), slot.forms()))
        })?;
        let text = word.to_string();
        if !slot.words().contains(&&*text) {
            return Err(unknown_rule(slot, &word, input.peek(token::Paren)));
        }
        let args = if input.peek(token::Paren) {
            let args;
            let paren = parenthesized!(args in input);
            Some((args, paren))
        } else {
            None
        };
        let mut tokens = word.to_token_stream();
        if let Some((_, paren)) = &args {
            let mut group = Group::new(Delimiter::Parenthesis, TokenStream::new());
            group.set_span(paren.span.join());
            tokens.extend([TokenTree::from(group)]);
        }
        let source = match (&*text, args) {
            ("header", Some((args, _))) => header(&args, &tokens)?,
            ("payload", Some((args, _))) => payload(slot, &args, &tokens)?,
            ("header", None) => {
                return Err(Error::new_spanned(tokens, r#"which header? As in `header("event-id")`"#));
            }
            ("payload", None) => {
                return Err(Error::new_spanned(tokens, "which field? As in `payload(order_id)`"));
            }
            (_, Some(_)) => {
                return Err(Error::new_spanned(
                    tokens,
                    format!("`{text}` takes no arguments: write `{text}`"),
                ));
            }
            ("cloud_event", None) => Source::CloudEvent,
            ("offset", None) => Source::Offset,
            ("record", None) => Source::Record,
            _ => Source::Partition,
        };
        Ok(Self { source, tokens })
    }
}

/// `id = "event-id"`: a header or a field may have been meant.
fn quoted_rule(slot: Slot, quoted: &LitStr) -> Error {
    let text = quoted.value();
    let field = (!slot.tombstone && is_field(&text)).then(|| format!("`payload({text})`"));
    let header = (slot.wanted == Wanted::Id).then(|| format!("`header({text:?})`"));
    let meant = [header, field].into_iter().flatten().collect::<Vec<_>>().join(" or ");
    let meant = if meant.is_empty() { slot.forms() } else { &meant };
    Error::new(quoted.span(), format!("the {} is a rule, not a string: say {meant}", slot.attribute()))
}

fn unknown_rule(slot: Slot, word: &Ident, has_args: bool) -> Error {
    let (attribute, forms) = (slot.attribute(), slot.forms());
    let other = slot.wanted.other();
    let message = if word == "payload" {
        format!("a tombstone has no payload to read a field of: say {forms}")
    } else if Slot::of(other).words().contains(&&*word.to_string()) {
        format!("`{word}` can be the {}, not the {attribute}: say {forms}", other.attribute())
    } else if let Some(near) = words::near(&word.to_string(), slot.words().iter().copied()) {
        format!("unknown rule `{word}`, did you mean `{near}`? (the {attribute} can be {forms})")
    } else if has_args || slot.tombstone {
        format!("unknown rule `{word}`: the {attribute} can be {forms}")
    } else {
        format!("unknown rule `{word}`: for this field of the payload say `{attribute} = payload({word})`")
    };
    Error::new(word.span(), message)
}

fn header(args: ParseStream<'_>, whole: &TokenStream) -> Result<Source> {
    if args.is_empty() {
        return Err(Error::new_spanned(whole, r#"which header? As in `header("event-id")`"#));
    }
    let name: Expr = args.parse()?;
    args.parse::<Option<Token![,]>>()?;
    if !args.is_empty() {
        return Err(args.error("an id comes from one header"));
    }
    match &name {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if text.value().is_empty() => {
            Err(Error::new(text.span(), r#"a header's name is not empty: `header("event-id")`"#))
        }
        Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => Ok(Source::Header(name)),
        Expr::Path(ExprPath { path, .. })
            if path.get_ident().is_some_and(|ident| ident.to_string().starts_with(char::is_lowercase)) =>
        {
            Err(Error::new_spanned(
                path,
                format!("a header's name is a string: `header(\"{}\")`", quote!(#path)),
            ))
        }
        Expr::Lit(_) => {
            Err(Error::new_spanned(&name, r#"a header's name is a string: `header("event-id")`"#))
        }
        _ => Ok(Source::Header(name)),
    }
}

fn payload(slot: Slot, args: ParseStream<'_>, whole: &TokenStream) -> Result<Source> {
    if args.is_empty() {
        return Err(Error::new_spanned(whole, "which field? As in `payload(order_id)`"));
    }
    let field = FieldPath::parse(args)?;
    args.parse::<Option<Token![,]>>()?;
    if args.is_empty() {
        return Ok(Source::Payload { field, tombstone: None });
    }
    let slot = Slot { tombstone: true, ..slot };
    let word = args.call(Ident::parse_any)?;
    if word != "tombstone" || !args.peek(Token![=]) {
        return Err(Error::new(
            word.span(),
            format!(
                "after the field can only come `tombstone =` with {}; where several fields make the {}, put them in a \
                 struct that implements `FieldValue`",
                slot.forms(),
                slot.attribute(),
            ),
        ));
    }
    args.parse::<Token![=]>()?;
    let rule = Rule::parse(slot, args)?;
    args.parse::<Option<Token![,]>>()?;
    if !args.is_empty() {
        return Err(args.error("nothing can follow the rule for tombstones"));
    }
    Ok(Source::Payload { field, tombstone: Some(Box::new(Tombstone { word, rule })) })
}

impl FieldPath {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            let quoted: LitStr = input.parse()?;
            let text = quoted.value();
            return Err(Error::new(quoted.span(), format!("a field without quotes: `payload({text})`")));
        }
        let expr: Expr = input.parse()?;
        let mut members = Vec::new();
        collect_members(&expr, &mut members).ok_or_else(|| {
            Error::new_spanned(
                &expr,
                "only a field of the payload can be read, `payload(order_id)`, or one within it, `payload(customer.id)`",
            )
        })?;
        Ok(Self(members))
    }

    /// The path as the subscription records it.
    pub(crate) fn name(&self) -> String {
        let names = self.0.iter().map(|member| match member {
            Member::Named(ident) => ident.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        });
        names.collect::<Vec<_>>().join(".")
    }
}

fn collect_members(expr: &Expr, members: &mut Vec<Member>) -> Option<()> {
    match expr {
        Expr::Path(path) => {
            let ident = path.path.get_ident().filter(|ident| *ident != "self")?;
            members.push(Member::Named(ident.clone()));
        }
        Expr::Lit(ExprLit { lit: Lit::Int(index), .. }) => {
            members.push(Member::Unnamed(Index { index: index.base10_parse().ok()?, span: index.span() }));
        }
        Expr::Field(field) => {
            collect_members(&field.base, members)?;
            members.push(field.member.clone());
        }
        _ => return None,
    }
    Some(())
}

/// Whether a quoted text is a field or a path of fields. Not by `parse_str`: rustc itself reports
/// what it finds in a text.
fn is_field(text: &str) -> bool {
    text.split('.').all(|name| {
        name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}
