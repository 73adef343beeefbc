//! A substitute for the cryptography of QUIC, without its cost and randomness: a handshake with the
//! messages and flights of TLS 1.3, and packet protection that keeps the lengths but encrypts
//! nothing.
//!
//! **Model.** `ClientHello → (ServerHello, certificate and Finished) → Finished`, in the packet
//! number spaces in which QUIC carries the messages of TLS. Each message is preceded by its length.
//! The server's second message has the size of a short certificate chain. Every packet carries a
//! tag of 16 bytes, as with AES-GCM. Here the tag contains the key and the packet number.
//! Decryption with the wrong key or the wrong packet number therefore fails, as it does with
//! AES-GCM.
//!
//! **Invariant:** nothing here is secret, and nothing is random: a simulation depends neither on
//! other simulations nor on the machine.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    self, AeadKey, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey,
    KeyPair, Keys, PacketKey, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};

/// The cryptographic configuration of both sides, and the server's key for tokens and signatures.
/// It is empty, since nothing is protected.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unprotected;

impl crypto::ClientConfig for Unprotected {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Handshake::new(Side::Client, params)))
    }
}

impl crypto::ServerConfig for Unprotected {
    fn initial_keys(&self, _version: u32, _id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys(INITIAL, Side::Server))
    }

    fn retry_tag(&self, _version: u32, _id: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        params: &TransportParameters,
    ) -> Box<dyn Session> {
        Box::new(Handshake::new(Side::Server, params))
    }
}

/// The next step of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Client: send the ClientHello.
    Hello,
    /// Wait for the peer's hello.
    AwaitHello,
    /// Server: send the ServerHello. Both: switch to the handshake keys.
    HandshakeKeys,
    /// Client: wait for the server's certificate and Finished.
    AwaitCertificate,
    /// Server: send the certificate and Finished. Client: send Finished. Both: switch to the data
    /// keys.
    DataKeys,
    /// Server: wait for the client's Finished.
    AwaitFinished,
    Done,
}

#[derive(Debug)]
struct Handshake {
    side: Side,
    step: Step,
    /// Our encoded transport parameters.
    params: Vec<u8>,
    peer: Option<TransportParameters>,
    /// Received bytes that are not yet a complete message.
    unread: Vec<u8>,
    /// The number of the next data key, for key updates.
    generation: u64,
}

impl Handshake {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut encoded = Vec::new();
        params.write(&mut encoded);
        let step = if side.is_client() { Step::Hello } else { Step::AwaitHello };
        Self { side, step, params: encoded, peer: None, unread: Vec::new(), generation: DATA + 1 }
    }

    /// Processes a complete message of the peer.
    fn receive(&mut self, message: &[u8]) -> Result<(), TransportError> {
        self.step = match (self.side, self.step) {
            (Side::Server, Step::AwaitHello) => {
                self.read_params(message)?;
                Step::HandshakeKeys
            }
            (Side::Client, Step::AwaitHello) => Step::HandshakeKeys,
            (Side::Client, Step::AwaitCertificate) => {
                self.read_params(message.get(CERTIFICATE..).unwrap_or_default())?;
                Step::DataKeys
            }
            (Side::Server, Step::AwaitFinished) => Step::Done,
            _ => {
                let reason = "a handshake message out of turn".into();
                return Err(TransportError {
                    code: TransportErrorCode::crypto(UNEXPECTED_MESSAGE),
                    frame: None,
                    reason,
                });
            }
        };
        Ok(())
    }

    fn read_params(&mut self, mut bytes: &[u8]) -> Result<(), TransportError> {
        self.peer = Some(TransportParameters::read(self.side, &mut bytes)?);
        Ok(())
    }
}

impl Session for Handshake {
    fn initial_keys(&self, _id: &ConnectionId, side: Side) -> Keys {
        keys(INITIAL, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        match self.side {
            // In `DataKeys` the client has read all messages; it has only its Finished left to
            // send.
            Side::Client => !matches!(self.step, Step::DataKeys | Step::Done),
            Side::Server => self.step != Step::Done,
        }
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.unread.extend_from_slice(bytes);
        while let Some((len, rest)) = self.unread.split_first_chunk::<2>() {
            let len = usize::from(u16::from_be_bytes(*len));
            if rest.len() < len {
                break;
            }
            let message: Vec<u8> = self.unread.drain(..2 + len).skip(2).collect();
            self.receive(&message)?;
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let (key, next) = match (self.side, self.step) {
            (Side::Client, Step::Hello) => {
                append_message(out, &[&self.params]);
                self.step = Step::AwaitHello;
                return None;
            }
            (Side::Client, Step::HandshakeKeys) => (HANDSHAKE, Step::AwaitCertificate),
            (Side::Server, Step::HandshakeKeys) => {
                append_message(out, &[&[0; HELLO]]);
                (HANDSHAKE, Step::DataKeys)
            }
            (Side::Client, Step::DataKeys) => {
                append_message(out, &[&[0; FINISHED]]);
                (DATA, Step::Done)
            }
            (Side::Server, Step::DataKeys) => {
                append_message(out, &[&[0; CERTIFICATE], &self.params]);
                (DATA, Step::AwaitFinished)
            }
            _ => return None,
        };
        self.step = next;
        Some(keys(key, self.side))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let generation = self.generation;
        self.generation += 1;
        Some(keys(generation, self.side).packet)
    }

    fn is_valid_retry(&self, _id: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        true
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// Appends one message that consists of several parts.
fn append_message(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// A key. Its lowest bit is the side that encrypts with it, 1 for the server. The other bits are
/// the number of the key.
#[derive(Clone, Copy, Debug)]
struct Key(u64);

/// The keys of `side` with this number: `local` for its own packets, `remote` for the peer's.
fn keys(number: u64, side: Side) -> Keys {
    let (local, remote) = if side.is_client() { (0, 1) } else { (1, 0) };
    let key = |side: u64| Key(number << 1 | side);
    Keys {
        header: KeyPair { local: Box::new(key(local)), remote: Box::new(key(remote)) },
        packet: KeyPair { local: Box::new(key(local)), remote: Box::new(key(remote)) },
    }
}

impl Key {
    fn tag(self, packet: u64) -> [u8; TAG] {
        let mut tag = [0xa5; TAG];
        tag[..8].copy_from_slice(&self.0.to_be_bytes());
        // The low 7 bytes of the packet number are enough to distinguish the packets of a
        // simulation.
        tag[8..15].copy_from_slice(&packet.to_be_bytes()[1..]);
        tag
    }
}

impl PacketKey for Key {
    fn encrypt(&self, packet: u64, bytes: &mut [u8], _header_len: usize) {
        let at = bytes.len() - TAG;
        bytes[at..].copy_from_slice(&self.tag(packet));
    }

    fn decrypt(
        &self,
        packet: u64,
        _header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let at = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        if payload[at..] != self.tag(packet) {
            return Err(CryptoError);
        }
        payload.truncate(at);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for Key {
    fn decrypt(&self, _at: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _at: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        16
    }
}

impl HmacKey for Unprotected {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        // FNV-1a, continued for each 8 bytes of the output. It is not secure, but gives different
        // tokens for different connection identifiers, which is sufficient here.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for chunk in out.chunks_mut(8) {
            for &byte in data {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            chunk.copy_from_slice(&hash.to_be_bytes()[..chunk.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut expected = vec![0; self.signature_len()];
        self.sign(data, &mut expected);
        if expected == signature { Ok(()) } else { Err(CryptoError) }
    }
}

impl HandshakeTokenKey for Unprotected {
    fn aead_from_hkdf(&self, _random: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self)
    }
}

impl AeadKey for Unprotected {
    fn seal(&self, data: &mut Vec<u8>, _additional: &[u8]) -> Result<(), CryptoError> {
        data.extend_from_slice(&[0; TAG]);
        Ok(())
    }

    fn open<'a>(
        &self,
        data: &'a mut [u8],
        _additional: &[u8],
    ) -> Result<&'a mut [u8], CryptoError> {
        let len = data.len().checked_sub(TAG).ok_or(CryptoError)?;
        Ok(&mut data[..len])
    }
}

/// Length of the tag that AES-GCM adds to a packet.
const TAG: usize = 16;
/// Length of a ServerHello with its key share.
const HELLO: usize = 120;
/// Length of two elliptic-curve certificates and the signature.
const CERTIFICATE: usize = 2000;
/// Length of the client's Finished.
const FINISHED: usize = 36;
/// The TLS alert for an unexpected message.
const UNEXPECTED_MESSAGE: u8 = 10;
/// The number of the initial keys.
const INITIAL: u64 = 0;
/// The number of the handshake keys.
const HANDSHAKE: u64 = 1;
/// The number of the first data keys. Each key update adds one.
const DATA: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(key: &dyn PacketKey, number: u64) -> BytesMut {
        let mut bytes = vec![7; 100];
        key.encrypt(number, &mut bytes, 10);
        BytesMut::from(&bytes[10..])
    }

    #[test]
    fn a_packet_opens_only_with_its_key_and_number() {
        let opens = |key: Key, number, mut bytes: BytesMut| {
            PacketKey::decrypt(&key, number, &[], &mut bytes).is_ok().then_some(bytes)
        };
        let good = opens(Key(5), 9, seal(&Key(5), 9)).expect("key and number are right");
        assert_eq!(good.len(), 90 - TAG);
        assert!(opens(Key(5), 10, seal(&Key(5), 9)).is_none());
        assert!(opens(Key(4), 9, seal(&Key(5), 9)).is_none());
        assert!(opens(Key(5), 9, BytesMut::from(&[0; 3][..])).is_none());
    }

    #[test]
    fn each_side_decrypts_only_what_the_peer_encrypted() {
        let (client, server) = (keys(DATA, Side::Client), keys(DATA, Side::Server));
        let sealed = seal(&*client.packet.local, 3);
        assert!(server.packet.remote.decrypt(3, &[], &mut sealed.clone()).is_ok());
        assert!(client.packet.remote.decrypt(3, &[], &mut sealed.clone()).is_err());
    }

    #[test]
    fn signatures_depend_on_the_signed_data() {
        let sign = |data: &[u8]| {
            let mut out = vec![0; 32];
            Unprotected.sign(data, &mut out);
            out
        };
        assert_ne!(sign(b"one"), sign(b"two"));
        assert!(Unprotected.verify(b"one", &sign(b"one")).is_ok());
        assert!(Unprotected.verify(b"two", &sign(b"one")).is_err());
    }
}
