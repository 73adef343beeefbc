//! Measures the cost of reading a frame's headers, of marking a frame, of cutting a train, and of
//! checksums.

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use weir_core::packet::Ecn;
use weir_wire::builder::PacketBuilder;
use weir_wire::{ChecksumMode, MAX_HEADER_LEN, Train, checksum, flow_key, parse, set_ce};

fn headers(c: &mut Criterion) {
    let frames = [
        ("tcp4", PacketBuilder::tcp(A4, B4, 80, 4000).numbered(0, 1448).ecn(Ecn::Ect0).frame()),
        (
            "udp4-vlan",
            PacketBuilder::udp(A4, B4, 80, 4000).numbered(0, 18).vlan(7).ecn(Ecn::Ect0).frame(),
        ),
        ("tcp6", PacketBuilder::tcp(A6, B6, 80, 4000).numbered(0, 1428).ecn(Ecn::Ect0).frame()),
    ];
    for (name, mut frame) in frames {
        let parsed = parse(&frame).expect("a built frame parses");
        c.bench_function(&format!("parse/{name}"), |b| b.iter(|| parse(black_box(&frame))));
        c.bench_function(&format!("flow_key/{name}"), |b| {
            b.iter(|| flow_key(black_box(&frame), black_box(&parsed)));
        });
        let fresh = frame.clone();
        c.bench_function(&format!("set_ce/{name}"), |b| {
            b.iter(|| {
                // Restore ECT(0), so that every iteration marks a packet. In the frame with a VLAN
                // tag, the checksum stays changed, which does not affect the cost.
                frame[14..26].copy_from_slice(&fresh[14..26]);
                set_ce(black_box(&mut frame), black_box(&parsed))
            });
        });
    }
}

fn trains(c: &mut Criterion) {
    let (vnet, frame) = PacketBuilder::tcp(A4, B4, 80, 4000).numbered(0, 64_000).train(1448);
    let parsed = parse(&frame).expect("a built frame parses");
    let train = Train::plan(&frame, &vnet, &parsed).expect("a built train is a train");
    let mut out = [0; MAX_HEADER_LEN];
    c.bench_function("train/plan", |b| {
        b.iter(|| Train::plan(black_box(&frame), black_box(&vnet), black_box(&parsed)));
    });
    for (name, run, mode) in [
        ("train/headers-one-partial", 3..4, ChecksumMode::Partial),
        ("train/headers-one-complete", 3..4, ChecksumMode::Complete),
        ("train/headers-run", 3..20, ChecksumMode::Partial),
    ] {
        c.bench_function(name, |b| {
            b.iter(|| train.headers(black_box(run.clone()), black_box(&frame), mode, &mut out));
        });
    }
    let mut sums = c.benchmark_group("sum");
    for len in [64, 1448, 64_000] {
        sums.throughput(Throughput::Bytes(len as u64));
        sums.bench_function(len.to_string(), |b| {
            b.iter(|| checksum::sum(black_box(&frame[54..54 + len])));
        });
    }
}

criterion_group!(benches, headers, trains);
criterion_main!(benches);

const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
