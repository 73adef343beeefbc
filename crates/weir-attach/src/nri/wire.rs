//! The messages of the protocol: fields of protobuf, and the requests and responses of ttrpc.

/// A message does not have the expected format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
    /// A number of fixed length. The plugin needs no such number.
    Fixed,
}

/// The fields of a message in their order, each with its number.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let key = self.number()?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed)?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => self.bytes(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Value::Fixed)?,
            _ => return Err(Malformed),
        };
        Ok((number, value))
    }

    /// A number of variable length: seven bits per byte, the lowest first.
    fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (place, byte) in self.rest.iter().enumerate().take(LONGEST_NUMBER) {
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[place + 1..];
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// The text that `bytes` hold. A text of more than [`LONGEST_TEXT`] bytes is malformed.
pub(super) fn text(bytes: &[u8]) -> Result<String, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
    if text.len() > LONGEST_TEXT { Err(Malformed) } else { Ok(text.to_owned()) }
}

pub(super) fn put_number(message: &mut Vec<u8>, field: u32, number: u64) {
    put(message, u64::from(field) << 3);
    put(message, number);
}

pub(super) fn put_bytes(message: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put(message, u64::from(field) << 3 | 2);
    put(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

pub(super) fn put_text(message: &mut Vec<u8>, field: u32, text: &str) {
    put_bytes(message, field, text.as_bytes());
}

fn put(message: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

/// A request for a method of a service.
pub(super) fn request(service: &str, method: &str, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    put_text(&mut message, 1, service);
    put_text(&mut message, 2, method);
    put_bytes(&mut message, 3, body);
    message
}

/// The method and the body of a request.
pub(super) fn method(request: &[u8]) -> Result<(String, &[u8]), Malformed> {
    let (mut method, mut body) = (String::new(), &[][..]);
    for field in Fields::new(request) {
        match field? {
            (2, Value::Bytes(bytes)) => method = text(bytes)?,
            (3, Value::Bytes(bytes)) => body = bytes,
            _ => {}
        }
    }
    Ok((method, body))
}

/// A response without an error.
pub(super) fn response(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    put_bytes(&mut message, 2, body);
    message
}

/// A response with an error.
pub(super) fn status(code: u64, words: &str) -> Vec<u8> {
    let (mut message, mut status) = (Vec::new(), Vec::new());
    put_number(&mut status, 1, code);
    put_text(&mut status, 2, words);
    put_bytes(&mut message, 1, &status);
    message
}

/// The text of the error in a response; `None` for a response without an error.
pub(super) fn refusal(response: &[u8]) -> Option<String> {
    let status = Fields::new(response).find_map(|field| match field {
        Ok((1, Value::Bytes(status))) => Some(status),
        _ => None,
    })?;
    let (mut code, mut words) = (0, String::new());
    for field in Fields::new(status).flatten() {
        match field {
            (1, Value::Number(number)) => code = number,
            (2, Value::Bytes(bytes)) => words = text(bytes).unwrap_or_default(),
            _ => {}
        }
    }
    (code != 0).then_some(words)
}

/// Maximum length of a number in bytes.
const LONGEST_NUMBER: usize = 10;
/// Maximum length of a text in bytes. Kubernetes allows 256 KiB for all annotations of a pod.
const LONGEST_TEXT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_are_written() {
        let mut message = Vec::new();
        put_number(&mut message, 1, u64::MAX);
        put_text(&mut message, 200, "text");
        // Field 3, a number of four bytes.
        message.extend([0x1d, 1, 2, 3, 4]);
        let fields: Vec<_> = Fields::new(&message).collect();
        assert_eq!(
            fields,
            [
                Ok((1, Value::Number(u64::MAX))),
                Ok((200, Value::Bytes(b"text"))),
                Ok((3, Value::Fixed))
            ]
        );
        let requested = request("service", "Method", b"body");
        assert_eq!(method(&requested), Ok(("Method".to_owned(), &b"body"[..])));
        assert_eq!(refusal(&status(12, "no")), Some("no".to_owned()));
        assert_eq!(refusal(&response(b"")), None);
    }

    #[test]
    fn malformed_messages_are_refused() {
        for bytes in [
            // A number without an end, and a number that is too long.
            &[0x80][..],
            &[0xff; 11],
            // Fields that are longer than the message.
            &[0x0a, 5, 1],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            // An unknown type of value.
            &[0x0b],
            // An incomplete number of eight bytes.
            &[0x09, 1],
        ] {
            let fields: Vec<_> = Fields::new(bytes).take(3).collect();
            assert_eq!(fields, [Err(Malformed)], "{bytes:?}");
        }
        assert_eq!(text(b"\xff"), Err(Malformed));
        assert_eq!(text(&vec![b'x'; LONGEST_TEXT + 1]), Err(Malformed));
    }
}
