//! What rows that are not receipts keep of a message, in a form that any database stores.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::record::Headers;

/// The longest reason kept, in bytes.
const MAX_REASON: usize = 8 * 1024;

/// A reason without NUL, of bounded length.
pub(crate) fn reason(reason: &str) -> String {
    let mut end = reason.len().min(MAX_REASON);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].replace('\0', "\u{fffd}")
}

/// Headers as a JSON array of `[name, base64 of the value or null]`.
pub(crate) fn encode_headers(headers: &Headers) -> Vec<u8> {
    let pairs: Vec<_> =
        headers.iter().map(|(name, value)| (name, value.map(|v| STANDARD.encode(v)))).collect();
    serde_json::to_vec(&pairs).expect("text and null always serialise")
}

/// The headers that were encoded; `None` for what was not.
pub(crate) fn decode_headers(stored: &[u8]) -> Option<Headers> {
    let pairs: Vec<(String, Option<String>)> = serde_json::from_slice(stored).ok()?;
    let headers: Option<Vec<_>> = pairs
        .into_iter()
        .map(|(name, value)| match value {
            None => Some((name, None)),
            Some(value) => Some((name, Some(STANDARD.decode(value).ok()?.into()))),
        })
        .collect();
    headers.map(Headers::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_any_bytes_become_json() {
        let headers = Headers::new([("a\0b", Some(vec![0xff, 0].into())), ("none", None)]);
        assert_eq!(encode_headers(&headers), br#"[["a\u0000b","/wA="],["none",null]]"#);
    }

    #[test]
    fn headers_come_back_as_they_were() {
        let all: Vec<u8> = (0..=255).collect();
        let some =
            [("a\0b", Some(all.into())), ("", None), ("a\0b", Some(vec![].into())), ("\u{fffd}\"ä", None)];
        for headers in [Headers::default(), Headers::new(some)] {
            let again = decode_headers(&encode_headers(&headers)).expect("they were encoded");
            assert!(again.iter().eq(headers.iter()), "{again:?}");
        }
    }

    #[test]
    fn what_was_not_encoded_is_told() {
        for stored in [&b""[..], b"{}", b"[[1,null]]", br#"[["a","?"]]"#, b"\xff"] {
            assert!(decode_headers(stored).is_none());
        }
    }
}
