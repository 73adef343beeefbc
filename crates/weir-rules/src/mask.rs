//! Reads and writes flow masks: the header bits that distinguish flows.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_core::key::FlowMask;

/// A field of a mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The field's name in the language.
    pub(crate) name: &'static str,
    /// The field's width in bits.
    pub(crate) bits: u32,
    get: fn(&FlowMask) -> u128,
    set: fn(&mut FlowMask, u128),
}

impl Field {
    /// The field with this name; `…-ipv6` is another word for `…-ip6`.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        let name = match name {
            "src-ipv6" => "src-ip6",
            "dst-ipv6" => "dst-ip6",
            name => name,
        };
        FIELDS.iter().find(|f| f.name == name)
    }

    /// All bits of the field.
    pub(crate) fn full(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    pub(crate) fn set(&self, mask: &mut FlowMask, bits: u128) {
        (self.set)(mask, bits);
    }

    /// The bits that a text specifies; `None` if it is not a mask or has bits outside the field.
    pub(crate) fn parse(&self, text: &str) -> Option<u128> {
        let bits = if let Some(prefix) = text.strip_prefix('/') {
            let prefix = decimal(prefix).filter(|&n| n <= self.bits.into())? as u32;
            // Length 0 is a special case, because a shift by the full width overflows.
            if prefix == 0 {
                0
            } else {
                self.full() >> (self.bits - prefix) << (self.bits - prefix)
            }
        } else if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            let digits = !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit());
            digits.then(|| u128::from_str_radix(hex, 16).ok()).flatten()?
        } else if let Some(number) = decimal(text) {
            number
        } else {
            match self.bits {
                32 => u32::from(text.parse::<Ipv4Addr>().ok()?).into(),
                128 => u128::from(text.parse::<Ipv6Addr>().ok()?),
                48 => mac(text)?,
                _ => return None,
            }
        };
        (bits <= self.full()).then_some(bits)
    }
}

/// The mask in the form that the parser reads; an empty text for an empty mask.
pub(crate) fn write(mask: &FlowMask) -> String {
    if *mask == all() {
        return "all".to_owned();
    }
    let set = FIELDS.iter().map(|f| (f, (f.get)(mask))).filter(|&(_, bits)| bits != 0);
    let parts: Vec<String> = set
        .map(|(f, bits)| {
            format!("{} 0x{bits:0width$x}", f.name, width = f.bits.div_ceil(4) as usize)
        })
        .collect();
    parts.join(" ")
}

/// Reads a mask in the form that [`write`] writes; `None` if the text is not a mask.
pub(crate) fn read(text: &str) -> Option<FlowMask> {
    if text == "all" {
        return Some(all());
    }
    let mut mask = FlowMask::default();
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    while let Some(name) = words.next() {
        let field = Field::named(name)?;
        field.set(&mut mask, field.parse(words.next()?)?);
    }
    Some(mask)
}

/// The mask with every bit set.
pub(crate) fn all() -> FlowMask {
    let mut mask = FlowMask::default();
    for field in FIELDS {
        field.set(&mut mask, field.full());
    }
    mask
}

fn decimal(text: &str) -> Option<u128> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Parses a MAC address: six bytes in hexadecimal, separated by colons.
pub(crate) fn mac(text: &str) -> Option<u128> {
    let mut bits = 0;
    let mut count = 0;
    for byte in text.split(':') {
        let digits = (1..=2).contains(&byte.len()) && byte.bytes().all(|b| b.is_ascii_hexdigit());
        bits = bits << 8 | u128::from(digits.then(|| u8::from_str_radix(byte, 16).ok()).flatten()?);
        count += 1;
        if count > 6 {
            return None;
        }
    }
    (count == 6).then_some(bits)
}

macro_rules! field {
    ($name:literal, $member:ident, $bits:literal) => {
        Field {
            name: $name,
            bits: $bits,
            get: |mask| mask.$member as u128,
            set: |mask, bits| mask.$member = bits as _,
        }
    };
}

/// All fields, in the order in which they are written.
pub(crate) const FIELDS: &[Field] = &[
    field!("src-ip", src_ip, 32),
    field!("dst-ip", dst_ip, 32),
    field!("src-ip6", src_ip6, 128),
    field!("dst-ip6", dst_ip6, 128),
    field!("src-port", src_port, 16),
    field!("dst-port", dst_port, 16),
    field!("proto", proto, 8),
    field!("flow-id", flow_id, 20),
    field!("vlan", vlan, 12),
    field!("dscp", dscp, 6),
    field!("src-mac", src_mac, 48),
    field!("dst-mac", dst_mac, 48),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(field: &str, text: &str) -> Option<u128> {
        Field::named(field)?.parse(text)
    }

    #[test]
    fn masks_in_all_their_forms() {
        assert_eq!(bits("src-ip", "0xff"), Some(0xff));
        assert_eq!(bits("src-ip", "/24"), Some(0xffff_ff00));
        assert_eq!(bits("src-ip", "/0"), Some(0));
        assert_eq!(bits("src-ip", "255.255.0.0"), Some(0xffff_0000));
        assert_eq!(bits("dst-ipv6", "/64"), Some(u128::from(u64::MAX) << 64));
        assert_eq!(bits("dst-ip6", "ffff::"), Some(0xffff << 112));
        assert_eq!(bits("src-mac", "ff:ff:ff:0:0:0"), Some(0xffff_ff00_0000));
        assert_eq!(bits("proto", "255"), Some(255));
        for (field, text) in [
            ("proto", "256"),
            ("src-ip", "/33"),
            ("dscp", "0x"),
            ("vlan", "1.2.3.4"),
            ("src-mac", "1:2:3"),
            ("src-ip", "+1"),
        ] {
            assert_eq!(bits(field, text), None, "{field} {text}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mask =
            FlowMask { src_ip: 0xff, dst_ip6: 0xffff << 112, vlan: 4095, ..FlowMask::default() };
        for mask in [mask, all(), FlowMask::default()] {
            assert_eq!(read(&write(&mask)), Some(mask));
        }
        assert_eq!(read("src-ip"), None);
    }
}
