//! What the derive writes, next to what one would write by hand.

use syn::{ItemImpl, parse_quote};

use super::*;

fn assert_same(derived: TokenStream, by_hand: &ItemImpl) {
    let derived: ItemImpl = syn::parse2(derived).expect("the derive makes one impl");
    assert_eq!(derived.to_token_stream().to_string(), by_hand.to_token_stream().to_string());
}

#[test]
fn the_expansion_is_a_call_of_what_one_would_write_by_hand() {
    let derived = derive(&parse_quote! {
        #[inbox(crate = inbox, name = "payments.reserve", topic = "a", topics("b", "c"), payload = OrderPlaced)]
        #[inbox(id = header("event-id"), key = payload(customer.r#type), codec = Avro, filter = wanted)]
        #[inbox(max_batch = 10, time_limit = "1m 500ms", start = time(Timestamp(5)))]
        #[inbox(retry(cap = "5m", max_attempts = ATTEMPTS, in_place = 0), on_dead = block)]
        struct ReservePayment {
            limit_cents: i64,
        }
    });
    let by_hand = parse_quote! {
        #[automatically_derived]
        impl inbox::Subscription for ReservePayment {
            type Payload = OrderPlaced;

            fn definition(&self) -> inbox::Definition<Self::Payload> {
                inbox::Definition::new("payments.reserve", Avro)
                    .topic("a")
                    .topic("b")
                    .topic("c")
                    .id(inbox::IdRule::header("event-id"))
                    .key(inbox::KeyRule::payload(
                        "customer.type",
                        |payload: &OrderPlaced| { &payload.customer.r#type }
                    ))
                    .filter(wanted)
                    .max_batch(10)
                    .time_limit(::core::time::Duration::new(60u64, 500000000u32))
                    .start(inbox::Start::Time(Timestamp(5)))
                    .retry(inbox::RetryPolicy {
                        cap: ::core::time::Duration::new(300u64, 0u32),
                        max_attempts: ATTEMPTS,
                        in_place: 0,
                        ..inbox::RetryPolicy::default()
                    })
                    .on_dead(inbox::OnDead::Block)
            }
        }
    };
    assert_same(derived, &by_hand);
}

#[test]
fn a_policy_that_is_given_whole_takes_nothing_from_the_default() {
    let derived = derive(&parse_quote! {
        #[inbox(crate = inbox, name = "a", topic = "a", payload = Order, id = offset, key = record)]
        #[inbox(on_dead = release, retry(
            in_place = 1, base = "2s", cap = "3s", max_attempts = 4, max_elapsed = "5s", constraint_attempts = 6,
        ))]
        struct Handler;
    });
    let by_hand = parse_quote! {
        #[automatically_derived]
        impl inbox::Subscription for Handler {
            type Payload = Order;

            fn definition(&self) -> inbox::Definition<Self::Payload> {
                inbox::Definition::new("a", inbox::Json)
                    .topic("a")
                    .id(inbox::IdRule::offset())
                    .key(inbox::KeyRule::record())
                    .retry(inbox::RetryPolicy {
                        in_place: 1,
                        base: ::core::time::Duration::new(2u64, 0u32),
                        cap: ::core::time::Duration::new(3u64, 0u32),
                        max_attempts: 4,
                        max_elapsed: ::core::time::Duration::new(5u64, 0u32),
                        constraint_attempts: 6,
                    })
                    .on_dead(inbox::OnDead::Release)
            }
        }
    };
    assert_same(derived, &by_hand);
}

#[test]
fn an_option_has_a_rule_for_tombstones_and_a_parameter_its_bounds() {
    let derived = derive(&parse_quote! {
        #[inbox(crate = inbox, name = "a", topic = "a", payload = Option<Event<T>>)]
        #[inbox(id = payload(id, tombstone = offset), key = payload(id, tombstone = record))]
        struct Audit<T: Body>(T)
        where
            T: Clone;
    });
    let by_hand = parse_quote! {
        #[automatically_derived]
        impl<T: Body> inbox::Subscription for Audit<T>
        where
            T: Clone,
            Self: ::core::marker::Send + ::core::marker::Sync + 'static,
            Option<Event<T>>: ::core::marker::Send + ::core::marker::Sync + 'static,
            inbox::Tombstones<inbox::Json>: inbox::Payload<Option<Event<T>>>
        {
            type Payload = Option<Event<T>>;

            fn definition(&self) -> inbox::Definition<Self::Payload> {
                inbox::Definition::new("a", inbox::Tombstones(inbox::Json))
                    .topic("a")
                    .id(inbox::IdRule::payload_or(
                        "id",
                        |payload: &Event<T>| { &payload.id },
                        inbox::IdRule::offset()
                    ))
                    .key(inbox::KeyRule::payload_or(
                        "id",
                        |payload: &Event<T>| { &payload.id },
                        inbox::KeyRule::record()
                    ))
            }
        }
    };
    assert_same(derived, &by_hand);
}
