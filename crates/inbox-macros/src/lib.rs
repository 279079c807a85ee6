//! The derive of inbox-core.
//!
//! Read it in the order of its pipeline: `ast` (what the derive is on), `attr` with `rule`, `start`, `retry` and
//! `on_dead` (what `#[inbox(…)]` says), `valid` (whether that can be), `expand` (the impl), `fallback` (what
//! stands in for it where there were mistakes).

mod ast;
mod attr;
mod crate_path;
mod errors;
mod expand;
mod fallback;
mod on_dead;
mod retry;
mod rule;
mod start;
mod time;
mod valid;
mod words;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a type a subscription: says which records it handles, and what names and orders them.
///
/// ```
/// # use inbox_core::Subscription;
/// #[derive(serde::Deserialize)]
/// struct OrderPlaced {
///     order_id: String,
///     cents: i64,
/// }
///
/// /// Reserves money for every placed order, once.
/// #[derive(Subscription)]
/// #[inbox(
///     name = "payments.reserve",
///     topic = "orders.placed",
///     payload = OrderPlaced,
///     id = header("event-id"),
///     key = payload(order_id),
/// )]
/// struct ReservePayment {
///     limit_cents: i64,
/// }
/// ```
///
/// Structs and enums can be subscriptions, with fields and with generics. The derive writes
/// `Subscription::definition`, which is a call of `Definition`'s methods with what the attribute
/// says, and asks of a type with parameters what the trait asks of all: `Send + Sync + 'static`,
/// also of a payload that is or contains a type parameter.
///
/// | attribute | must be given | default |
/// |---|---|---|
/// | [`name`](#name) | yes | |
/// | [`topic`, `topics`, `topic_pattern`](#topic-topics-topic_pattern) | one of them | |
/// | [`payload`](#payload) | yes | |
/// | [`id`](#id) | yes | |
/// | [`key`](#key) | yes | |
/// | [`codec`](#codec) | no | `Json` |
/// | [`filter`](#filter) | no | every record is wanted |
/// | [`max_batch`](#max_batch) | no | the inbox's setting |
/// | [`time_limit`](#time_limit) | no | the inbox's setting |
/// | [`start`](#start) | no | the first record, see there |
/// | [`retry`](#retry) | no | the inbox's setting |
/// | [`on_dead`](#on_dead) | no | `release` |
/// | [`crate`](#crate) | no | by the dependencies in `Cargo.toml` |
///
/// They may be spread over several `#[inbox(…)]`. Where a string is wanted, an expression such as a
/// constant will do; what a literal says is checked at compile time, what an expression says when
/// the inbox starts.
///
/// # `name`
///
/// The subscription's durable name, the scope of dedup: **a contract**, stored with every row. A
/// handler under another name is another subscription and sees every message again. At most 200
/// bytes of ASCII letters, digits and `.`, `_`, `-`, `:`, `/`.
///
/// # `topic`, `topics`, `topic_pattern`
///
/// What it consumes: `topic = "…"`, more than once for several, or a list in one. With `topic_pattern
/// = "orders\\..*"` every topic whose whole name matches the regular expression, also those that are
/// made later; one that cannot be read is told when the inbox starts.
///
/// ```
/// # use inbox_core::Subscription;
/// # #[derive(serde::Deserialize)] struct Order { id: u64 }
/// #[derive(Subscription)]
/// #[inbox(
///     name = "search.index",
///     topics("orders.placed", "orders.changed"),
///     payload = Order,
///     id = header("event-id"),
///     key = payload(id),
/// )]
/// struct IndexOrder;
/// ```
///
/// # `payload`
///
/// The type that a record's value is decoded to.
///
/// - `payload = T`: a record with a null value, a tombstone, becomes a dead letter of class
///   `undecodable`, as does any value that the codec refuses.
/// - `payload = Option<T>`: a tombstone is a message too, with the payload `None`. It has no fields, so
///   an id or a key from the payload has to say where it comes from then: `tombstone = …`. The
///   derive knows the type by its name, `Option`, and not behind an alias.
///
/// ```
/// # use inbox_core::Subscription;
/// # #[derive(serde::Deserialize)] struct Customer { id: u64 }
/// /// A tombstone says that the customer is gone; the record key is the customer's id.
/// #[derive(Subscription)]
/// #[inbox(
///     name = "mailing.customers",
///     topic = "customers",
///     payload = Option<Customer>,
///     id = offset,
///     key = payload(id, tombstone = record),
/// )]
/// struct KeepAddresses;
/// ```
///
/// # `id`
///
/// What names a message: of those with the same id, one takes effect. The rule is recorded with the
/// subscription; another one needs another name.
///
/// - `id = header("event-id")`: a header's value. No such header, or one that is empty or not UTF-8:
///   dead letter of class `no_id`.
/// - `id = cloud_event`: the `id` and `source` of a `CloudEvents` event together: the headers `ce_id` and
///   `ce_source` in binary mode, members of the envelope in structured mode (a header `content-type` of
///   `application/cloudevents+json`), where the payload is decoded from the event's data. The same event in
///   either mode is one message. One of them missing or empty: dead letter of class `no_id`; an envelope that
///   cannot be opened: `undecodable`. `CloudEvent` has the other attributes, for filters and handlers.
/// - `id = payload(field)`: a field of the payload, or one within it, as in `payload(order.id)`. A
///   field without value, or an empty one: dead letter of class `no_id`.
/// - `id = payload(field, tombstone = header("event-id"))`, or `cloud_event` or `offset` there: the same
///   for a payload that is an `Option`; a tombstone takes its id by the second rule.
/// - `id = offset`: the record's place in Kafka, for senders that give no id. What Kafka delivers again is
///   recognised, what its sender sends again is not.
///
/// A field can be of any type that implements `FieldValue`: strings, integers, UUIDs, `Option`s of
/// those, and types of your own.
///
/// ```
/// # use inbox_core::Subscription;
/// # #[derive(serde::Deserialize)] struct Transfer { request: Request }
/// # #[derive(serde::Deserialize)] struct Request { id: String, account: u64 }
/// #[derive(Subscription)]
/// #[inbox(
///     name = "ledger.transfer",
///     topic = "transfers",
///     payload = Transfer,
///     id = payload(request.id),
///     key = payload(request.account),
/// )]
/// struct BookTransfer;
/// ```
///
/// # `key`
///
/// What orders messages: those with the same key, in one partition, are handled one after the
/// other, in the order of their offsets. The rule is recorded with the subscription; another one
/// needs another name.
///
/// - `key = payload(field)`: a field of the payload, as for `id`. A field without value: dead letter of
///   class `no_key`.
/// - `key = payload(field, tombstone = record)`, or `partition` there: the same for a payload that is an
///   `Option`; a tombstone takes its key by the second rule.
/// - `key = record`: the record key. A record with a null key has no order to keep.
/// - `key = partition`: one key for the whole partition, all of which is handled one after the other.
///
/// Several fields together are a struct that implements `FieldValue`:
///
/// ```
/// # use std::borrow::Cow;
/// # use inbox_core::{FieldValue, Subscription};
/// #[derive(serde::Deserialize)]
/// struct Account {
///     bank: u32,
///     number: u64,
/// }
///
/// impl FieldValue for Account {
///     fn field_value(&self) -> Option<Cow<'_, str>> {
///         Some(format!("{}/{}", self.bank, self.number).into())
///     }
/// }
///
/// #[derive(serde::Deserialize)]
/// struct Payment {
///     account: Account,
///     cents: i64,
/// }
///
/// #[derive(Subscription)]
/// #[inbox(
///     name = "ledger.payment",
///     topic = "payments",
///     payload = Payment,
///     id = cloud_event,
///     key = payload(account),
/// )]
/// struct BookPayment;
/// ```
///
/// # `codec`
///
/// An expression whose value decodes record values: a `Codec` of the payload, or of `T` where the
/// payload is an `Option<T>`. Default: `Json`, for which the payload implements serde's
/// `Deserialize`. What it refuses becomes a dead letter of class `undecodable`.
///
/// ```
/// # use inbox_core::{Codec, DecodeError, Subscription};
/// /// A decimal number as text.
/// struct Decimal;
///
/// impl Codec<i64> for Decimal {
///     fn decode(&self, value: &[u8]) -> Result<i64, DecodeError> {
///         Ok(std::str::from_utf8(value)?.parse()?)
///     }
/// }
///
/// #[derive(Subscription)]
/// #[inbox(name = "meter.sum", topic = "readings", payload = i64, id = offset, key = record, codec = Decimal)]
/// struct SumReadings;
/// ```
///
/// # `filter`
///
/// A function or closure `Fn(&Record) -> bool`. A record for which it is false is ignored before it
/// is decoded, without a row. If it panics, the record becomes a dead letter of class `undecodable`.
/// Default: every record is wanted.
///
/// ```
/// # use inbox_core::{Record, Subscription};
/// # #[derive(serde::Deserialize)] struct Order { id: u64 }
/// fn is_from_shop(record: &Record) -> bool {
///     record.headers.get("origin") == Some(b"shop")
/// }
///
/// #[derive(Subscription)]
/// #[inbox(
///     name = "shop.confirm",
///     topic = "orders.placed",
///     payload = Order,
///     id = header("event-id"),
///     key = payload(id),
///     filter = is_from_shop,
/// )]
/// struct ConfirmOrder;
/// ```
///
/// # `max_batch`
///
/// At most this many messages in one transaction, 1 or more. With 1, each message has a transaction of
/// its own. Default: the inbox's setting.
///
/// # `time_limit`
///
/// How long one call of the handler may take, as in `"30s"`, `"500ms"` or `"1m 30s"`. It is then cut off,
/// fails alone and is tried again like a transient failure. Default: the inbox's setting.
///
/// ```
/// # use inbox_core::Subscription;
/// # #[derive(serde::Deserialize)] struct Report { month: String }
/// #[derive(Subscription)]
/// #[inbox(
///     name = "reports.close",
///     topic = "months.ended",
///     payload = Report,
///     id = payload(month),
///     key = partition,
///     max_batch = 1,
///     time_limit = "2m",
/// )]
/// struct CloseMonth;
/// ```
///
/// # `start`
///
/// Where the subscription begins if the database does not know it yet; from then on its watermarks decide.
///
/// | rule | it begins |
/// |---|---|
/// | `earliest` | at the first record that Kafka has |
/// | `latest` | behind the last record: what is there already is never handled |
/// | `committed` | where the consumer group is; partitions without a committed offset at the first record |
/// | `time(Timestamp(…))` | at the first record at or after a time, in milliseconds since 1970 |
///
/// Default: the first record, unless the consumer group has committed offsets while the database knows
/// nothing of the group. Then the inbox does not start until this says what is meant: a service that moves to
/// the inbox would handle everything a second time.
///
/// ```
/// # use inbox_core::Subscription;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
/// #[derive(Subscription)]
/// #[inbox(
///     name = "payments.reserve",
///     topic = "orders.placed",
///     payload = OrderPlaced,
///     id = header("event-id"),
///     key = payload(order_id),
///     start = committed,
/// )]
/// struct ReservePayment;
/// ```
///
/// # `retry`
///
/// How a message that failed by itself is tried again: any of these parts, at least one, in any order. Where
/// the message is not at fault (the database is down) no attempt is counted; what fails for good is a dead
/// letter at once.
///
/// | part | default | meaning |
/// |---|---|---|
/// | `in_place` | 3 | attempts in memory before a message is parked in the database |
/// | `base` | `"1s"` | the first wait is drawn from zero to this, the next one from zero to twice this, and so on |
/// | `cap` | `"10m"` | no drawn wait is longer; one that the handler names (`Failure::transient_after`) may be |
/// | `max_attempts` | 25 | attempts in all, in memory and parked |
/// | `max_elapsed` | `"24h"` | no attempt begins later than this after the first one |
/// | `constraint_attempts` | 5 | attempts in all while the failure is a broken constraint of the database |
///
/// - Fewer than `in_place` attempts have failed: the message is tried again from memory. That costs no row,
///   but holds its partition's watermark, and a restart begins to count anew. A wait of more than 10 s parks
///   at once.
/// - `in_place` attempts have failed: the message is parked in the database, and its partition goes on. Later
///   messages of its key wait behind it. It is tried again when it is due, also by another process. Both
///   `in_place = 0` and `in_place = 1` park at the first failure.
/// - `max_attempts` or `constraint_attempts` have failed, or the next attempt would begin after
///   `max_elapsed`: the message becomes a dead letter of class `exhausted`. [`on_dead`](#on_dead) says what
///   becomes of its key.
///
/// Without `retry` the inbox's `Settings::retry` holds. With it, a part that is not given has the default
/// above and **not** that of the setting. Numbers may be expressions, times are strings as for `time_limit`
/// (`m` is a minute, `M` a month), of 365 days at most. Here a message is tried for three days, at least once
/// an hour:
///
/// ```
/// # use inbox_core::Subscription;
/// # #[derive(serde::Deserialize)] struct Invoice { number: u64 }
/// const ATTEMPTS: u32 = 500;
///
/// #[derive(Subscription)]
/// #[inbox(
///     name = "tax.report",
///     topic = "invoices.issued",
///     payload = Invoice,
///     id = header("event-id"),
///     key = payload(number),
///     retry(max_attempts = ATTEMPTS, max_elapsed = "3days", cap = "1h"),
/// )]
/// struct ReportInvoice;
/// ```
///
/// # `on_dead`
///
/// Whether a dead letter, of whatever class, frees its key.
///
/// - `on_dead = release`, the default: later messages of its key go on. One that is replayed runs after what
///   has run since, so the handler has to bear that order.
/// - `on_dead = block`: later messages of its key wait, across restarts and rebalances, until a person acts.
///   Other keys go on, and of a message without a key nothing waits.
///
/// ```
/// # use inbox_core::Subscription;
/// # #[derive(serde::Deserialize)] struct Booking { account: u64 }
/// /// A balance is wrong as long as a booking before it is missing.
/// #[derive(Subscription)]
/// #[inbox(
///     name = "ledger.book",
///     topic = "bookings",
///     payload = Booking,
///     id = header("event-id"),
///     key = payload(account),
///     on_dead = block,
/// )]
/// struct Book;
/// ```
///
/// # `crate`
///
/// The path under which `Subscription` and `Definition` are found, for a crate that gets them from a
/// re-export. Default: `inbox` or else `inbox-core` among the dependencies in `Cargo.toml`, also where it has
/// another name there.
///
/// ```
/// mod messaging {
///     pub use inbox_core as inbox;
/// }
///
/// # #[derive(serde::Deserialize)] struct Order { id: u64 }
/// #[derive(messaging::inbox::Subscription)]
/// #[inbox(crate = crate::messaging::inbox)]
/// # #[inbox(name = "a", topic = "a", payload = Order, id = offset, key = record)]
/// struct ShipOrder;
/// # fn main() {}
/// ```
#[proc_macro_derive(Subscription, attributes(inbox))]
pub fn derive_subscription(input: TokenStream) -> TokenStream {
    expand::derive(&parse_macro_input!(input as DeriveInput)).into()
}
