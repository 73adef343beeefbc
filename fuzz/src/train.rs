//! Any virtio-net header before any bytes: an accepted train is cut into valid packets, and a run
//! of several of these packets forms a train, which is cut into the same packets again.

use weir_wire::{
    ChecksumMode, Gso, MAX_HEADER_LEN, Parsed, Run, Train, VNET_HEADER_LEN, VnetHeader, checksum,
    parse, parse_ip,
};

/// The first two bytes select the layer and the run, the next ten are the virtio-net header, and
/// the rest is the frame.
pub fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first_chunk::<2>() else { return };
    let Some((header, frame)) = rest.split_first_chunk::<VNET_HEADER_LEN>() else { return };
    let mut vnet = VnetHeader::decode(header);
    assert_eq!(vnet.encode(), *header);
    let layer3 = choice[0] & 0x80 != 0;
    let Ok(parsed) = (if layer3 { parse_ip(frame) } else { parse(frame) }) else { return };
    if let Ok(train) = Train::plan(frame, &vnet, &parsed) {
        let reparse = if layer3 { parse_ip } else { parse };
        lengths_add_up(&train, &parsed);
        let first = u16::from(choice[0] & 0x7f) % train.segments();
        let last = first + u16::from(choice[1]) % (train.segments() - first) + 1;
        cut(&train, frame, first..last, &vnet, &reparse);
        assert!(
            train
                .headers(first..first, frame, ChecksumMode::Partial, &mut [0; MAX_HEADER_LEN])
                .is_err()
        );
        assert!(
            train
                .headers(
                    0..train.segments(),
                    &frame[..frame.len() / 2],
                    ChecksumMode::Partial,
                    &mut [0; 8]
                )
                .is_err()
        );
    } else if vnet.validate(frame).is_ok() && vnet.gso() == Ok(Gso::None) {
        let mut copy = frame.to_vec();
        assert!(vnet.complete(&mut copy).is_ok() && !vnet.needs_csum());
    }
}

fn lengths_add_up(train: &Train, parsed: &Parsed) {
    let network_header = (train.header_len() - parsed.network_offset()) as u32;
    let total: u32 = (0..train.segments()).map(|i| train.segment_len(i)).sum();
    assert_eq!(total, train.payload_len() + u32::from(train.segments()) * network_header);
    assert_eq!(train.run_len(0..train.segments()), parsed.network_len);
    assert_eq!(train.segment_len(train.segments()), 0);
}

type Parser = fn(&[u8]) -> Result<Parsed, weir_wire::ParseError>;

fn cut(
    train: &Train,
    frame: &[u8],
    range: core::ops::Range<u16>,
    vnet: &VnetHeader,
    reparse: &Parser,
) {
    let (run, joined) = made(train, frame, range.clone(), ChecksumMode::Partial);
    let parsed = reparse(&joined).expect("a run has headers that parse");
    assert_eq!(parsed.network_end(), joined.len());
    assert_eq!(parsed.network_len, train.run_len(range.clone()));
    assert_ne!(checksum::verify_ipv4_header(&joined, &parsed), Some(false));
    let again = (range.len() > 1).then(|| {
        Train::plan(&joined, &run.vnet, &parsed).expect("a run of several packets is a train")
    });
    assert!(again.is_none_or(|again| usize::from(again.segments()) == range.len()));
    // Check the first three packets of a run and its last packet, because a run can be long.
    for i in range.clone().take(3).chain(range.clone().skip(3).last()) {
        let (_, packet) = made(train, frame, i..i + 1, ChecksumMode::Partial);
        if let Some(again) = again {
            assert_eq!(
                made(&again, &joined, i - range.start..i - range.start + 1, ChecksumMode::Partial)
                    .1,
                packet
            );
        }
        let (complete, packet) = made(train, frame, i..i + 1, ChecksumMode::Complete);
        assert!(!complete.vnet.needs_csum() && complete.vnet.gso() == Ok(Gso::None));
        let parsed = reparse(&packet).expect("a packet has headers that parse");
        assert_eq!(parsed.network_len, train.segment_len(i));
        // A checksum seed from the input's header may be wrong, so only a train without one is
        // checked.
        if !vnet.needs_csum() {
            assert_ne!(checksum::verify_transport(&packet, &parsed), Some(false));
        }
    }
}

/// The packets of the run as one frame.
fn made(
    train: &Train,
    frame: &[u8],
    range: core::ops::Range<u16>,
    mode: ChecksumMode,
) -> (Run, Vec<u8>) {
    let mut out = [0; MAX_HEADER_LEN];
    let run = train.headers(range, frame, mode, &mut out).expect("the run is within the train");
    assert_eq!(run.header_len, train.header_len());
    let joined = [&out[..run.header_len], &frame[run.payload.clone()]].concat();
    assert_eq!(run.vnet.validate(&joined), Ok(()));
    (run, joined)
}
