//! Tests of URL parsing and of the addresses that the client may connect to.

use std::net::{IpAddr, SocketAddr};

use tollgate_upstream::FetchError;
use url::Host;

use super::super::address::{Allowed, is_public};
use super::super::connection::is_own_address;
use super::super::target::Target;

#[test]
fn only_public_addresses_may_be_dialled() {
    let check = |addresses: &[&str], expected: bool| {
        for text in addresses {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(is_public(address), expected, "{text}");
        }
    };
    check(
        &[
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.255",
            "192.88.100.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "198.51.101.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2a00::1",
            "2001:200::1",
            "2001:db7:ffff::1",
            "2001:db9::1",
            "3ffe::1",
            "::ffff:8.8.8.8",
            "2002:808:808::1",
        ],
        true,
    );
    check(
        &[
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.192",
            "192.0.0.255",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.255",
        ],
        false,
    );
    check(
        &[
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "100::1",
            "1fff:ffff::1",
            "2001::1",
            "2001:0:808:808::1",
            "2001:10::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "2002:a00:1::",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ],
        false,
    );
}

#[test]
fn urls_are_normalized() {
    let v4 = |text: &str| Host::Ipv4(text.parse().unwrap()).to_owned();
    for (text, host, port) in [
        ("http://example.com/a", Host::Domain("example.com".to_owned()), 80),
        ("HTTPS://EXAMPLE.com", Host::Domain("example.com".to_owned()), 443),
        (
            "http://example.com:443/",
            Host::Domain("example.com".to_owned()),
            443,
        ),
        (
            "https://example.com:80/",
            Host::Domain("example.com".to_owned()),
            80,
        ),
        (
            "http://example.com./",
            Host::Domain("example.com.".to_owned()),
            80,
        ),
        ("http://[::1]/", Host::Ipv6("::1".parse().unwrap()), 80),
        // Every spelling of an IP address results in the same address.
        ("http://127.1/", v4("127.0.0.1"), 80),
        ("http://0x7f.1/", v4("127.0.0.1"), 80),
        ("http://2130706433/", v4("127.0.0.1"), 80),
        ("http://017700000001/", v4("127.0.0.1"), 80),
        ("http://0x7f000001/", v4("127.0.0.1"), 80),
        ("http://127.0.0.1./", v4("127.0.0.1"), 80),
        ("http://%31%32%37.0.0.1/", v4("127.0.0.1"), 80),
        ("http://１２７.0.0.1/", v4("127.0.0.1"), 80),
        ("http://①⑥⑨.254.169.254/", v4("169.254.169.254"), 80),
        (
            "http://[::ffff:a9fe:a9fe]/",
            Host::Ipv6("::ffff:169.254.169.254".parse().unwrap()),
            80,
        ),
    ] {
        let target = Target::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((target.host().to_owned(), target.port()), (host, port), "{text}");
    }
}

#[test]
fn ambiguous_urls_are_refused() {
    for text in [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "data:text/plain,x",
        "http:example.com",
        "http:/example.com",
        "http:///example.com/",
        "http://",
        "http://?x",
        "http://user@example.com/",
        "http://user:password@example.com/",
        "http://@example.com/",
        "http://:@example.com/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com\\.evil/",
        "http:\\\\example.com",
        "http://exa\tmple.com/",
        "http://example.com/\n",
        " http://example.com/",
        "http://example.com/ a",
        "http://example.com/\u{a0}",
        "http://exa mple.com/",
        "http://example.com:99999/",
        "http://256.0.0.1/",
        "http://1.2.3.4.5/",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://[::1%eth0]/",
        "http://exam%00ple/",
        "http://a.b%2f@c/",
    ] {
        assert_eq!(Target::parse(text), Err(FetchError::NotAnAddress), "{text:?}");
    }
    let long = format!("http://example.com/{}", "a".repeat(8 << 10));
    assert_eq!(Target::parse(&long), Err(FetchError::NotAnAddress));
    assert!(Target::parse(&long[..8 << 10]).is_ok());
}

#[test]
fn redirects_are_parsed_like_urls() {
    let at = |text: &str| Target::parse(text).unwrap();
    for (from, location, to) in [
        ("http://a.example/x/y", "/z", "http://a.example/z"),
        ("http://a.example/x/y?q", "z?r", "http://a.example/x/z?r"),
        ("http://a.example/", "//b.example/z", "http://b.example/z"),
        ("http://a.example/", "https://b.example/z", "https://b.example/z"),
        (
            "https://a.example/",
            "https://b.example/#there",
            "https://b.example/",
        ),
        ("http://a.example/", "http://0x7f.1/", "http://127.0.0.1/"),
    ] {
        assert_eq!(at(from).redirected(location).unwrap().as_str(), to, "{location}");
    }
    for (from, location) in [
        ("https://a.example/", "http://a.example/"),
        ("http://a.example/", "ftp://a.example/"),
        ("http://a.example/", "file:///etc/passwd"),
        ("http://a.example/", "javascript:1"),
        ("http://a.example/", "http://user@a.example/"),
        ("http://a.example/", "//@b.example/"),
        ("http://a.example/", "\\\\b.example\\z"),
        ("http://a.example/", "/a\tb"),
    ] {
        assert_eq!(
            at(from).redirected(location),
            Err(FetchError::Unreachable),
            "{location}"
        );
    }
}

#[test]
fn requested_path_and_host_match_the_parsed_url() {
    let target = Target::parse("http://EXAMPLE.com:443/a%20b/../c?d=e#f").unwrap();
    assert_eq!((target.authority(), target.path()), ("example.com:443", "/c?d=e"));
    let target = Target::parse("https://[2606:4700::1111]:443?q").unwrap();
    assert_eq!((target.authority(), target.path()), ("[2606:4700::1111]", "/?q"));
}

#[test]
fn rules_cover_what_they_name() {
    for (rule, address, expected) in [
        ("10.1.2.0/24", "10.1.2.3:80", true),
        ("10.1.2.0/24", "10.1.2.3:443", true),
        ("10.1.2.0/24", "10.1.2.3:9000", false),
        ("10.1.2.0/24", "10.1.3.3:80", false),
        ("10.1.2.3:9000", "10.1.2.3:9000", true),
        ("10.1.2.3:9000", "10.1.2.3:80", false),
        ("10.1.2.3:9000", "10.1.2.4:9000", false),
        ("127.0.0.0/8:9000", "127.9.9.9:9000", true),
        ("127.0.0.0/8:9000", "[::ffff:127.0.0.1]:9000", true),
        ("127.0.0.0/8:9000", "[::1]:9000", false),
        ("0.0.0.0/0", "1.2.3.4:80", true),
        ("[fd00::]/8:9000", "[fd12::1]:9000", true),
        ("[fd00::]/8:9000", "[fe12::1]:9000", false),
        ("[::1]", "[::1]:443", true),
        ("[::1]:81", "[::1]:81", true),
    ] {
        let address: SocketAddr = address.parse().unwrap();
        assert_eq!(
            Allowed::parse(rule).unwrap().covers(address),
            expected,
            "{rule} {address}"
        );
    }
    for wrong in [
        "",
        "*",
        "example.com",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/",
        "10.0.0.0/8:",
        "10.0.0.0:0",
        "10.0.0.0:70000",
        "[::1]/129",
        "[::1",
        "::1",
        "10.0.0.0x",
    ] {
        assert!(Allowed::parse(wrong).is_err(), "{wrong}");
    }
}

/// Own addresses are detected before any connection.
#[test]
fn own_addresses_are_detected_by_route() {
    for (text, expected) in [
        ("127.0.0.1:80", true),
        ("192.0.2.1:80", false),
        ("203.0.113.9:443", false),
        ("[2001:db8::1]:443", false),
    ] {
        let address: SocketAddr = text.parse().unwrap();
        assert_eq!(is_own_address(address), expected, "{text}");
    }
}
