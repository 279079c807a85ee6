//! The impl: a thin shim over `Definition`.

use std::collections::HashSet;
use std::time::Duration;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Ident, Path, Type, WhereClause, parse_quote};

use crate::ast::Input;
use crate::errors::Errors;
use crate::fallback;
use crate::on_dead::OnDead;
use crate::retry::{self, Value};
use crate::rule::{FieldPath, Rule, Source, Wanted};
use crate::start::Start;
use crate::valid::{self, Payload, Subscription};

pub(crate) fn derive(node: &DeriveInput) -> TokenStream {
    let mut errors = Errors::default();
    let input = Input::from_syn(node, &mut errors);
    match (valid::check(input.ident, &input.attrs, errors), &input.core) {
        (Ok(subscription), Some(core)) => {
            let definition = definition(core, &subscription);
            let payload = subscription.payload.whole;
            let bounds = bounds_with_codec(&input, core, &subscription);
            implementation(&input, core, payload, bounds.as_ref(), &definition)
        }
        (Err(errors), _) => fallback::expand(&input, &errors),
        (Ok(_), None) => unreachable!("that inbox-core was not found is an error"),
    }
}

/// `impl Subscription for …`.
pub(crate) fn implementation(
    input: &Input<'_>,
    core: &Path,
    payload: &Type,
    bounds: Option<&WhereClause>,
    definition: &TokenStream,
) -> TokenStream {
    let ident = input.ident;
    let (impl_generics, ty_generics, _) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #core::Subscription for #ident #ty_generics #bounds {
            type Payload = #payload;

            fn definition(&self) -> #core::Definition<Self::Payload> {
                #definition
            }
        }
    }
}

/// The type's own bounds, and what the trait asks of a handler and a payload that depend on a
/// parameter, which may or may not be that.
pub(crate) fn bounds(input: &Input<'_>, payload: &Type) -> Option<WhereClause> {
    let mut generics = input.generics.clone();
    if generics.type_params().next().is_some() || generics.lifetimes().next().is_some() {
        let wanted = parse_quote!(Self: ::core::marker::Send + ::core::marker::Sync + 'static);
        generics.make_where_clause().predicates.push(wanted);
    }
    if depends_on_parameter(input, payload) {
        let wanted = parse_quote!(#payload: ::core::marker::Send + ::core::marker::Sync + 'static);
        generics.make_where_clause().predicates.push(wanted);
    }
    generics.where_clause
}

/// Also what the default codec asks of such a payload.
fn bounds_with_codec(input: &Input<'_>, core: &Path, subscription: &Subscription<'_>) -> Option<WhereClause> {
    let payload = subscription.payload.whole;
    let bounds = bounds(input, payload);
    if subscription.codec.is_some() || !depends_on_parameter(input, payload) {
        return bounds;
    }
    let json = quote!(#core::Json);
    let codec =
        if subscription.payload.of_option.is_some() { quote!(#core::Tombstones<#json>) } else { json };
    bounds.map(|mut bounds| {
        bounds.predicates.push(parse_quote!(#codec: #core::Payload<#payload>));
        bounds
    })
}

fn depends_on_parameter(input: &Input<'_>, payload: &Type) -> bool {
    let parameters: HashSet<_> =
        input.generics.type_params().map(|parameter| parameter.ident.to_string()).collect();
    mentions(payload.to_token_stream(), &parameters)
}

fn mentions(tokens: TokenStream, parameters: &HashSet<String>) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => parameters.contains(&ident.to_string()),
        TokenTree::Group(group) => mentions(group.stream(), parameters),
        _ => false,
    })
}

fn definition(core: &Path, subscription: &Subscription<'_>) -> TokenStream {
    let Subscription {
        name,
        topics,
        patterns,
        payload,
        id,
        key,
        filter,
        max_batch,
        time_limit,
        start,
        retry,
        on_dead,
        ..
    } = subscription;
    let codec = codec(core, subscription);
    let id = rule(core, Wanted::Id, id, payload);
    let key = rule(core, Wanted::Key, key, payload);
    let filter = filter.map(|filter| quote!(.filter(#filter)));
    let max_batch = max_batch.map(|max_batch| quote!(.max_batch(#max_batch)));
    let time_limit = time_limit.map(|limit| {
        let limit = duration(limit);
        quote!(.time_limit(#limit))
    });
    let start = start.map(|start| {
        let start = self::start(core, start);
        quote!(.start(#start))
    });
    let retry = retry.as_ref().map(|fields| {
        let policy = policy(core, fields);
        quote!(.retry(#policy))
    });
    let on_dead = on_dead.map(|on_dead| {
        let on_dead = self::on_dead(core, on_dead);
        quote!(.on_dead(#on_dead))
    });
    quote! {
        #core::Definition::new(#name, #codec)
            #(.topic(#topics))*
            #(.topic_pattern(#patterns))*
            .id(#id)
            .key(#key)
            #filter
            #max_batch
            #time_limit
            #start
            #retry
            #on_dead
    }
}

fn start(core: &Path, start: &Start) -> TokenStream {
    match start {
        Start::Committed(span) => quote_spanned!(*span=> #core::Start::Committed),
        Start::Earliest(span) => quote_spanned!(*span=> #core::Start::Earliest),
        Start::Latest(span) => quote_spanned!(*span=> #core::Start::Latest),
        Start::Time(span, time) => quote_spanned!(*span=> #core::Start::Time(#time)),
    }
}

fn policy(core: &Path, fields: &[(&Ident, Value<'_>)]) -> TokenStream {
    let given = fields.iter().map(|(field, value)| match value {
        Value::Number(number) => quote!(#field: #number),
        Value::Time(time) => {
            let time = duration(*time);
            quote!(#field: #time)
        }
    });
    // Where nothing is missing, clippy would find the rest needless.
    let rest = (fields.len() < retry::PARTS.len()).then(|| quote!(..#core::RetryPolicy::default()));
    quote!(#core::RetryPolicy { #(#given,)* #rest })
}

fn on_dead(core: &Path, on_dead: &OnDead) -> TokenStream {
    match on_dead {
        OnDead::Release(span) => quote_spanned!(*span=> #core::OnDead::Release),
        OnDead::Block(span) => quote_spanned!(*span=> #core::OnDead::Block),
    }
}

fn codec(core: &Path, subscription: &Subscription<'_>) -> TokenStream {
    let codec = match subscription.codec {
        Some(codec) => codec.to_token_stream(),
        // A payload that serde cannot decode is an error at the payload.
        None => respanned(quote!(#core::Json), at(subscription.payload.whole.span())),
    };
    match subscription.payload.of_option {
        Some(_) => quote!(#core::Tombstones(#codec)),
        None => codec,
    }
}

fn rule(core: &Path, wanted: Wanted, rule: &Rule, payload: &Payload<'_>) -> TokenStream {
    let kind = match wanted {
        Wanted::Id => quote!(#core::IdRule),
        Wanted::Key => quote!(#core::KeyRule),
    };
    match &rule.source {
        Source::Header(name) => quote!(#kind::header(#name)),
        Source::CloudEvent => quote!(#kind::cloud_event()),
        Source::Offset => quote!(#kind::offset()),
        Source::Record => quote!(#kind::record()),
        Source::Partition => quote!(#kind::partition()),
        Source::Payload { field, tombstone } => {
            // All of it at the field's place in the attribute: that is where rustc says then that
            // there is no such field, or that its type cannot be an id or a key.
            let at = at(field.0.first().map_or_else(Span::call_site, Spanned::span));
            let kind = respanned(kind, at);
            let name = field.name();
            let read = reader(field, payload.of_option.unwrap_or(payload.whole), at);
            match tombstone {
                None => quote_spanned!(at=> #kind::payload(#name, #read)),
                Some(tombstone) => {
                    let tombstone = self::rule(core, wanted, &tombstone.rule, payload);
                    quote_spanned!(at=> #kind::payload_or(#name, #read, #tombstone))
                }
            }
        }
    }
}

fn reader(FieldPath(members): &FieldPath, payload: &Type, at: Span) -> TokenStream {
    // The braces are the macro's, which keeps the closure's place at the field.
    quote_spanned!(at=> |payload: &#payload| { &payload #(.#members)* })
}

/// The place of a user's token, but the macro's own as far as names and lints are concerned.
fn at(place: Span) -> Span {
    place.resolved_at(Span::mixed_site())
}

fn respanned(tokens: TokenStream, span: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.into_iter().map(respan).collect()
}

fn duration(duration: Duration) -> TokenStream {
    let seconds = duration.as_secs();
    let nanoseconds = duration.subsec_nanos();
    quote!(::core::time::Duration::new(#seconds, #nanoseconds))
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
