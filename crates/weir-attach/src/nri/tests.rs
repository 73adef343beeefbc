//! Tests of the plugin against a runtime that the test plays.

use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, channel};

use super::*;

/// A runtime that listens on a socket at a temporary path.
struct Runtime {
    path: PathBuf,
    listener: UnixListener,
}

impl Runtime {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-nri-{}-{number}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a free name");
        Self { path, listener }
    }

    fn plugin(&self) -> (Nri, Receiver<PodSeen>) {
        let (sender, seen) = channel();
        let nri = Nri::start(self.path.clone(), move |seen| drop(sender.send(seen)));
        (nri.expect("a thread"), seen)
    }

    fn accept(&self) -> Trunk {
        let (stream, _) = self.listener.accept().expect("the plugin connects");
        let mut trunk = Trunk::new(stream, Duration::from_secs(60)).expect("a socket");
        let (connection, message) = trunk.next().expect("it is open").expect("a message");
        assert_eq!((connection, message.kind), (Connection::ToRuntime, Kind::Request));
        let (method, body) = wire::method(&message.payload).expect("a request");
        assert_eq!(method, "RegisterPlugin");
        assert_eq!(texts(body), Ok(["weir".into(), "90".into(), String::new()]));
        trunk
            .send(Connection::ToRuntime, message.stream, Kind::Response, &wire::response(&[]))
            .expect("it is open");
        trunk
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Calls the plugin, and returns the body of its answer, or its refusal.
fn call(trunk: &mut Trunk, method: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    let request = wire::request("nri.pkg.api.v1alpha1.Plugin", method, body);
    trunk.send(Connection::ToPlugin, 3, Kind::Request, &request).expect("it is open");
    let (connection, message) = trunk.next().expect("it is open").expect("an answer");
    assert_eq!((connection, message.stream), (Connection::ToPlugin, 3));
    assert_eq!(message.kind, Kind::Response);
    if let Some(words) = wire::refusal(&message.payload) {
        return Err(words);
    }
    let body = Fields::new(&message.payload).find_map(|field| match field {
        Ok((2, Value::Bytes(body))) => Some(body.to_vec()),
        _ => None,
    });
    Ok(body.unwrap_or_default())
}

fn described(id: &str, annotations: &[(&str, &str)]) -> Vec<u8> {
    let mut pod = Vec::new();
    for (field, text) in [(1, id), (2, "web"), (4, "shop")] {
        wire::put_text(&mut pod, field, text);
    }
    for (key, value) in annotations {
        let mut entry = Vec::new();
        wire::put_text(&mut entry, 1, key);
        wire::put_text(&mut entry, 2, value);
        wire::put_bytes(&mut pod, 6, &entry);
    }
    let mut linux = Vec::new();
    for (kind, path) in [("pid", ""), ("network", "/run/netns/cni-1")] {
        let mut namespace = Vec::new();
        wire::put_text(&mut namespace, 1, kind);
        wire::put_text(&mut namespace, 2, path);
        wire::put_bytes(&mut linux, 5, &namespace);
    }
    wire::put_bytes(&mut pod, 8, &linux);
    pod
}

/// A message that has each of the pods in a field with the number `field`.
fn with_pods(field: u32, pods: &[Vec<u8>]) -> Vec<u8> {
    let mut message = Vec::new();
    pods.iter().for_each(|pod| wire::put_bytes(&mut message, field, pod));
    message
}

fn next(seen: &Receiver<PodSeen>) -> PodSeen {
    seen.recv_timeout(Duration::from_secs(60)).expect("a report")
}

fn configure(trunk: &mut Trunk) {
    let mut body = Vec::new();
    wire::put_text(&mut body, 2, "containerd");
    wire::put_text(&mut body, 3, "v2");
    assert_eq!(call(trunk, "Configure", &body), Ok(vec![0x10, 0b111]), "three events");
}

/// An annotation of Weir, and an annotation that the plugin leaves out.
const ANNOTATIONS: &[(&str, &str)] = &[("weir/up", "1M"), ("other/up", "x")];

#[test]
fn pods_are_followed_from_the_list_and_the_events() {
    let runtime = Runtime::new();
    let (_nri, seen) = runtime.plugin();
    let mut trunk = runtime.accept();
    configure(&mut trunk);
    // The list comes in two parts. Field 3 of the first part says that more follow; the plugin's
    // answer confirms it with 1 in its field 2.
    let mut first = with_pods(1, &[described("a", ANNOTATIONS), described("b", &[])]);
    wire::put_number(&mut first, 3, 1);
    assert_eq!(call(&mut trunk, "Synchronize", &first), Ok(vec![0x10, 1]));
    call(&mut trunk, "Synchronize", &with_pods(1, &[described("c", ANNOTATIONS)]))
        .expect("an answer");
    let PodSeen::Started { pod, is_new: false } = next(&seen) else { panic!("a start") };
    assert_eq!((&*pod.id, &*pod.name), ("a", "shop/web"));
    assert_eq!(pod.annotations, Labels::from([("weir/up".into(), "1M".into())]));
    assert_eq!(pod.network.as_deref(), Some(Path::new("/run/netns/cni-1")));
    assert!(matches!(next(&seen), PodSeen::Started { pod, .. } if pod.id == "c"));
    assert_eq!(next(&seen), PodSeen::Answers("containerd v2".into()));
    // Events of newer and of older runtimes.
    call(&mut trunk, "RunPodSandbox", &with_pods(1, &[described("d", ANNOTATIONS)]))
        .expect("an answer");
    assert!(matches!(next(&seen), PodSeen::Started { pod, is_new: true } if pod.id == "d"));
    let change = |event, id| {
        let mut body = Vec::new();
        wire::put_number(&mut body, 1, event);
        wire::put_bytes(&mut body, 2, &described(id, ANNOTATIONS));
        body
    };
    call(&mut trunk, "StateChange", &change(RUN, "e")).expect("an answer");
    assert!(matches!(next(&seen), PodSeen::Started { pod, .. } if pod.id == "e"));
    call(&mut trunk, "StateChange", &change(STOP, "e")).expect("an answer");
    assert_eq!(next(&seen), PodSeen::Ended("e".into()));
    call(&mut trunk, "RemovePodSandbox", &with_pods(1, &[described("d", &[])])).expect("an answer");
    assert_eq!(next(&seen), PodSeen::Ended("d".into()));
    assert!(call(&mut trunk, "CreateContainer", &[]).is_err(), "Weir has no such method");
    // The runtime restarts; one pod has ended meanwhile.
    drop(trunk);
    assert!(matches!(next(&seen), PodSeen::Silent(_)));
    let mut trunk = runtime.accept();
    configure(&mut trunk);
    call(&mut trunk, "Synchronize", &with_pods(1, &[described("a", ANNOTATIONS)]))
        .expect("an answer");
    assert_eq!(next(&seen), PodSeen::Ended("c".into()));
    assert!(matches!(next(&seen), PodSeen::Answers(_)));
}

#[test]
fn a_list_that_was_cut_off_is_not_continued_on_the_next_connection() {
    let runtime = Runtime::new();
    let (_nri, seen) = runtime.plugin();
    let mut trunk = runtime.accept();
    configure(&mut trunk);
    let mut first = with_pods(1, &[described("a", ANNOTATIONS)]);
    wire::put_number(&mut first, 3, 1);
    call(&mut trunk, "Synchronize", &first).expect("an answer");
    assert!(matches!(next(&seen), PodSeen::Started { pod, .. } if pod.id == "a"));
    drop(trunk);
    assert!(matches!(next(&seen), PodSeen::Silent(_)));
    let mut trunk = runtime.accept();
    configure(&mut trunk);
    call(&mut trunk, "Synchronize", &with_pods(1, &[])).expect("an answer");
    assert_eq!(next(&seen), PodSeen::Ended("a".into()));
}

#[test]
fn malformed_requests_are_refused_and_long_annotations_are_cut() {
    let runtime = Runtime::new();
    let (_nri, seen) = runtime.plugin();
    let mut trunk = runtime.accept();
    configure(&mut trunk);
    let mut wrong = described("a", &[("weir/up", "1M")]);
    wrong.extend([0x0a, 0xff]);
    // A field with an incomplete length, bytes that are no field, and a text that is not UTF-8.
    for body in [&wrong, &vec![0xff; 64], &vec![0x0a, 2, 0xff, 0xfe]] {
        let request = with_pods(1, std::slice::from_ref(body));
        assert!(call(&mut trunk, "RunPodSandbox", &request).is_err());
    }
    // The pod has too many and too long annotations: some are left out, and all are cut.
    let long = "x".repeat(100_000);
    let many: Vec<(String, String)> =
        (0..50).map(|n| (format!("weir/{n}"), long.clone())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(k, v)| (&**k, &**v)).collect();
    call(&mut trunk, "RunPodSandbox", &with_pods(1, &[described("b", &many[..20])]))
        .expect("an answer");
    let PodSeen::Started { pod, .. } = next(&seen) else { panic!("a start") };
    assert_eq!(pod.annotations.len(), MOST_LABELS);
    assert!(pod.annotations.values().all(|value| value.len() < 5000));
}

#[test]
fn a_changed_byte_is_never_a_panic() {
    let whole = described("id", ANNOTATIONS);
    for place in 0..whole.len() {
        for byte in 0..=255 {
            let mut changed = whole.clone();
            changed[place] = byte;
            let _ = pod(&changed);
            let _ = pod(&whole[..place]);
        }
    }
}

#[test]
fn absent_faulty_and_refusing_runtimes_count_as_silent() {
    let absent = std::env::temp_dir().join("weir-nri-absent");
    let (sender, seen) = channel();
    let _nri = Nri::start(absent, move |seen| drop(sender.send(seen))).expect("a thread");
    assert!(matches!(next(&seen), PodSeen::Silent(text) if text.contains("no runtime listens")));
    let runtime = Runtime::new();
    let (_nri, seen) = runtime.plugin();
    let (mut stream, _) = runtime.listener.accept().expect("the plugin connects");
    io::Write::write_all(&mut stream, &[0xff; 1000]).expect("it is open");
    assert!(matches!(next(&seen), PodSeen::Silent(text) if text.contains("too long")));
    // The runtime refuses the registration.
    let (stream, _) = runtime.listener.accept().expect("the plugin connects");
    let mut trunk = Trunk::new(stream, Duration::from_secs(60)).expect("a socket");
    let (_, message) = trunk.next().expect("it is open").expect("a message");
    let refusal = wire::status(7, "no plugins");
    trunk
        .send(Connection::ToRuntime, message.stream, Kind::Response, &refusal)
        .expect("it is open");
    assert!(matches!(next(&seen), PodSeen::Silent(text) if text.contains("no plugins")));
}
