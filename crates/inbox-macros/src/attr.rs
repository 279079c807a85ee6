//! What `#[inbox(…)]` says, as it was written.

use proc_macro2::TokenTree;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Result};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, Ident, LitStr, Meta, Path, Token, Type, parenthesized, token};

use crate::ast::is_ours;
use crate::errors::Errors;
use crate::on_dead::OnDead;
use crate::retry::{self, Retry};
use crate::rule::{Rule, Slot, Wanted};
use crate::start::Start;
use crate::words;

/// The attributes that could be read; whether they can be so is for `valid`.
#[derive(Default)]
pub(crate) struct Attrs {
    pub(crate) name: Option<Expr>,
    pub(crate) topics: Vec<Expr>,
    pub(crate) patterns: Vec<Expr>,
    pub(crate) payload: Option<Type>,
    pub(crate) id: Option<Rule>,
    pub(crate) key: Option<Rule>,
    pub(crate) codec: Option<Expr>,
    pub(crate) filter: Option<Expr>,
    pub(crate) max_batch: Option<Expr>,
    pub(crate) time_limit: Option<Expr>,
    pub(crate) start: Option<Start>,
    pub(crate) retry: Option<Retry>,
    pub(crate) on_dead: Option<OnDead>,
    pub(crate) crate_path: Option<Path>,
    /// What was written, well or not.
    written: Vec<&'static str>,
    /// What a misspelt attribute was meant to be.
    meant: Vec<&'static str>,
    /// Whether there was something that could not be read at all.
    unreadable: bool,
}

impl Attrs {
    pub(crate) fn from_syn(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut this = Self::default();
        for attr in attrs.iter().filter(|attr| is_ours(attr)) {
            let list = match &attr.meta {
                Meta::List(list) => list,
                // It says nothing: all is missing.
                Meta::Path(_) => continue,
                Meta::NameValue(value) => {
                    let example = words::example("name");
                    let message = format!("write the attributes in parentheses: `#[inbox({example}, …)]`");
                    errors.push(Error::new_spanned(value, message));
                    this.unreadable = true;
                    continue;
                }
            };
            let read = list.parse_args_with(|input: ParseStream<'_>| this.items(input, errors));
            // After an error inside parentheses syn reports what is left in them once more.
            if let Err(error) = read
                && errors.is_empty()
            {
                errors.push(error);
            }
        }
        this
    }

    /// Whether the attribute was at least tried, so that it is wrong and not missing.
    pub(crate) fn tried(&self, attribute: &str) -> bool {
        let tried = |attribute| self.written.contains(&attribute) || self.meant.contains(&attribute);
        self.unreadable
            || tried(attribute)
            || attribute == "topic" && (tried("topics") || tried("topic_pattern"))
    }

    fn items(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> Result<()> {
        while !input.is_empty() {
            if let Err(error) = self.item(input) {
                errors.push(error);
                skip_item(input)?;
            } else if !input.is_empty() && !input.peek(Token![,]) {
                errors.push(input.error("expected `,` before the next attribute"));
                skip_item(input)?;
            }
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(())
    }

    fn item(&mut self, input: ParseStream<'_>) -> Result<()> {
        if input.peek(LitStr) && !self.written.contains(&"name") {
            self.meant.push("name");
            return Err(
                input.error("a value without its attribute: write it as in `name = \"payments.reserve\"`")
            );
        }
        let word = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), format!("expected an attribute: there are {}", words::attributes()))
        })?;
        let text = word.to_string();
        let Some(attribute) = words::attribute(&text) else {
            if retry::is_part(&text) {
                let message = format!("`{text}` is a part of `retry`: write `retry({text} = …)`");
                return Err(Error::new(word.span(), message));
            }
            let near = words::attribute_near(&text);
            self.meant.extend(near);
            let hint = near.map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
            let known = words::attributes();
            return Err(Error::new(
                word.span(),
                format!("unknown attribute `{text}`{hint} (there are {known})"),
            ));
        };
        let again =
            self.written.contains(&attribute) && !matches!(attribute, "topic" | "topics" | "topic_pattern");
        self.written.push(attribute);
        if again {
            return Err(Error::new(
                word.span(),
                format!("`{attribute}` is here for the second time: keep one"),
            ));
        }
        if attribute == "topics" {
            return self.topics(&word, input);
        }
        if attribute == "retry" {
            return self.retry.insert(Retry::default()).parse(&word, input);
        }
        let eq = input.parse::<Option<Token![=]>>()?;
        if eq.is_none() || input.is_empty() || input.peek(Token![,]) {
            let example = words::example(attribute);
            return Err(Error::new(
                word.span(),
                format!("`{attribute}` needs a value after a `=`: `{example}`"),
            ));
        }
        match attribute {
            "name" => self.name = Some(input.parse()?),
            "topic" => self.topics.push(input.parse()?),
            "topic_pattern" => self.patterns.push(input.parse()?),
            "payload" => self.payload = Some(unquoted(attribute, input)?),
            "id" => self.id = Some(Rule::parse(Slot::of(Wanted::Id), input)?),
            "key" => self.key = Some(Rule::parse(Slot::of(Wanted::Key), input)?),
            "codec" => self.codec = Some(unquoted(attribute, input)?),
            "filter" => self.filter = Some(unquoted(attribute, input)?),
            "max_batch" => self.max_batch = Some(unquoted(attribute, input)?),
            "time_limit" => self.time_limit = Some(input.parse()?),
            "start" => self.start = Some(Start::parse(input)?),
            "on_dead" => self.on_dead = Some(OnDead::parse(input)?),
            "crate" => {
                refuse_string(attribute, input)?;
                self.crate_path = Some(input.call(Path::parse_mod_style)?);
            }
            other => unreachable!("`{other}` is a known attribute that nothing reads"),
        }
        Ok(())
    }

    fn topics(&mut self, word: &Ident, input: ParseStream<'_>) -> Result<()> {
        let example = words::example("topics");
        if !input.peek(token::Paren) {
            return Err(Error::new(word.span(), format!("`topics` takes a list: `{example}`")));
        }
        let list;
        let paren = parenthesized!(list in input);
        let topics = Punctuated::<Expr, Token![,]>::parse_terminated(&list)?;
        if topics.is_empty() {
            return Err(Error::new(paren.span.join(), format!("no topic in the list: `{example}`")));
        }
        self.topics.extend(topics);
        Ok(())
    }
}

/// A value that is code: people who know other derives may put it in quotes.
fn unquoted<T: Parse>(attribute: &str, input: ParseStream<'_>) -> Result<T> {
    refuse_string(attribute, input)?;
    input.parse()
}

fn refuse_string(attribute: &str, input: ParseStream<'_>) -> Result<()> {
    if input.peek(LitStr) {
        let quoted: LitStr = input.parse()?;
        let value = quoted.value();
        return Err(Error::new(quoted.span(), format!("without quotes: `{attribute} = {value}`")));
    }
    Ok(())
}

/// Goes to where the next attribute seems to begin, so that one mistake is reported once and what
/// follows is still read.
pub(crate) fn skip_item(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !at_next_item(input) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

fn at_next_item(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    if ahead.parse::<Token![,]>().is_ok() {
        // A comma may also stand between a type's parameters: what follows it decides.
        return ahead.is_empty()
            || ahead.peek(Token![,])
            || ahead.call(Ident::parse_any).is_ok()
                && (ahead.is_empty() || ahead.peek(Token![,]) || at_value(&ahead));
    }
    let known = ahead.call(Ident::parse_any).is_ok_and(|word| words::attribute(&word.to_string()).is_some());
    known && at_value(&ahead)
}

fn at_value(input: ParseStream<'_>) -> bool {
    input.peek(Token![=]) || input.peek(token::Paren)
}
