//! The value of `--publish`.

use std::net::IpAddr;

use weir_linux::topology::{Protocol, Publish};

/// Parses `[ADDRESS:]PORT:PORT[/tcp|/udp]`, the form that container engines use. An IPv6 address is
/// in brackets.
pub(crate) fn parse(text: &str) -> Result<Publish, String> {
    let (ports, protocol) = match text.rsplit_once('/') {
        None => (text, Protocol::Tcp),
        Some((ports, "tcp")) => (ports, Protocol::Tcp),
        Some((ports, "udp")) => (ports, Protocol::Udp),
        Some((_, other)) => return Err(format!("`{other}` is neither tcp nor udp")),
    };
    let (left, inside) = ports.rsplit_once(':').ok_or_else(|| {
        format!("give the machine's port and the program's, such as {ports}:{ports}")
    })?;
    let (address, outside) = match left.rsplit_once(':') {
        None => (None, left),
        Some((address, outside)) => (Some(parse_address(address)?), outside),
    };
    Ok(Publish { address, outside: parse_port(outside)?, inside: parse_port(inside)?, protocol })
}

fn parse_address(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match bare {
        Some(bare) => bare.parse().ok().filter(IpAddr::is_ipv6),
        None => text.parse().ok().filter(IpAddr::is_ipv4),
    };
    address.ok_or_else(|| {
        format!("`{text}` is no address of this machine, such as 127.0.0.1 or [::1]")
    })
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port @ 1..) if text.starts_with(|first: char| first.is_ascii_digit()) => Ok(port),
        _ => Err(format!("`{text}` is no port: ports are numbers from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_the_form_of_container_engines() {
        let of = |text: &str| parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let tcp = |address: Option<&str>, outside, inside| Publish {
            address: address.map(|address| address.parse().unwrap()),
            outside,
            inside,
            protocol: Protocol::Tcp,
        };
        assert_eq!(of("8080:80"), tcp(None, 8080, 80));
        assert_eq!(of("8080:80/tcp"), tcp(None, 8080, 80));
        assert_eq!(of("8080:80/udp"), Publish { protocol: Protocol::Udp, ..tcp(None, 8080, 80) });
        assert_eq!(of("127.0.0.1:1:65535"), tcp(Some("127.0.0.1"), 1, 65535));
        assert_eq!(of("[::1]:8080:80"), tcp(Some("::1"), 8080, 80));
    }

    #[test]
    fn an_error_names_the_wrong_part() {
        for (text, words) in [
            ("80", "80:80"),
            ("0:80", "`0` is no port"),
            ("80:65536", "`65536` is no port"),
            ("80:+8", "`+8` is no port"),
            ("80:", "`` is no port"),
            ("80:80/sctp", "`sctp` is neither"),
            ("80:80/tcp/tcp", "`80/tcp` is no port"),
            ("80:80/tcp/udp", "`80/tcp` is no port"),
            ("localhost:80:80", "`localhost` is no address"),
            ("::1:80:80", "no address"),
            ("[127.0.0.1]:80:80", "no address"),
            ("", "the machine's port"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
