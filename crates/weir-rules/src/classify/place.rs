//! The place where rules apply: its interfaces with their names, and the machine's own addresses.
//!
//! Rules refer to interface names and to `me`. Packets carry interface numbers and addresses. A
//! place translates between the two.

use super::Pass;
use crate::rule::{Interface, Name};

/// The environment for which rules are compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The interfaces that a [`Pass`] may name.
    pub interfaces: Vec<PlaceInterface>,
    /// The expected passes of packets. Each has its own program, in which tests of direction and
    /// interface are already decided, except look-ups in tables. Packets in another pass get the
    /// same verdicts, but more slowly.
    pub passes: Vec<Pass>,
    /// IPv4 addresses that are `me` in addition to those of the interfaces.
    pub me4: Vec<u32>,
    /// IPv6 addresses that are `me` in addition to those of the interfaces.
    pub me6: Vec<u128>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceInterface {
    /// Its number in a [`Pass`].
    pub number: u16,
    /// Its name.
    pub name: Name,
    /// Its IPv4 addresses.
    pub v4: Vec<u32>,
    /// Its IPv6 addresses.
    pub v6: Vec<u128>,
}

impl Place {
    /// The interface with this number.
    pub fn interface(&self, number: u16) -> Option<&PlaceInterface> {
        self.interfaces.iter().find(|interface| interface.number == number)
    }

    /// All IPv4 addresses that are `me`.
    pub(super) fn all_me4(&self) -> impl Iterator<Item = u32> {
        self.interfaces.iter().flat_map(|interface| &interface.v4).chain(&self.me4).copied()
    }

    /// All IPv6 addresses that are `me`.
    pub(super) fn all_me6(&self) -> impl Iterator<Item = u128> {
        self.interfaces.iter().flat_map(|interface| &interface.v6).chain(&self.me6).copied()
    }

    /// Whether `wanted` accepts the interface with this number. Tables are not checked.
    pub(super) fn is(&self, number: u16, wanted: &Interface) -> bool {
        let Some(interface) = self.interface(number) else { return *wanted == Interface::Any };
        match wanted {
            Interface::Any => true,
            Interface::Name(pattern) => glob(pattern.as_bytes(), interface.name.as_bytes()),
            Interface::V4(address) => interface.v4.contains(address),
            Interface::V6(address) => interface.v6.contains(address),
            Interface::Table(_) => false,
        }
    }
}

/// Whether `name` matches `pattern`, in which `*` matches any text and `?` one character.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // The position of the last star, and the index in `name` up to which the star matches so far.
    // Backtracking to earlier stars is never necessary.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_any_text_or_one_character() {
        for (pattern, name, fits) in [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth*", "eth", true),
            ("eth*", "eth17", true),
            ("eth?", "eth", false),
            ("eth?", "eth1", true),
            ("*.1?", "a.b.12", true),
            ("*.1?", "a.1", false),
            ("*", "", true),
            ("", "x", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn an_interface_is_known_by_name_and_address() {
        let interface = PlaceInterface { number: 3, name: "br0".into(), v4: vec![7], v6: vec![8] };
        let place = Place { interfaces: vec![interface], ..Place::default() };
        for (wanted, is) in [
            (Interface::Any, true),
            (Interface::Name("br*".into()), true),
            (Interface::Name("eth0".into()), false),
            (Interface::V4(7), true),
            (Interface::V4(8), false),
            (Interface::V6(8), true),
        ] {
            assert_eq!(place.is(3, &wanted), is, "{wanted:?}");
            assert_eq!(place.is(4, &wanted), wanted == Interface::Any, "{wanted:?}");
        }
    }
}
