//! Tests the encryption of the web page with real clients: curl, and the tools of OpenSSL. The page
//! itself is tested in a browser by `web/test`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::common::{Lab, Need, Running, must, output_of, trial};
use crate::daemon::{Daemon, OTHER_USER, Wire, until};
use crate::web::Site;

pub(crate) fn tests() -> Vec<Trial> {
    const TOOLS: &[Need] = &[Need::Program("openssl"), Need::Program("curl")];
    vec![
        trial("the_page_speaks_tls_with_a_given_certificate", TOOLS, encrypted),
        trial("certificates_that_cannot_be_used_are_refused_with_advice", TOOLS, refused),
        trial("unfinished_handshakes_do_not_block_clients", TOOLS, half_done),
        trial(
            "a_confined_daemon_speaks_tls_and_reads_its_certificate_again",
            &[Need::Root, Need::Program("ip"), Need::Program("openssl"), Need::Program("curl")],
            confined,
        ),
    ]
}

/// Makes a key and a certificate for `localhost` with this common name.
fn certificate(lab: &Lab, name: &str) -> [String; 2] {
    let [cert, key] = ["pem", "key"].map(|end| lab.path(&format!("{name}.{end}")));
    let [cert, key] = [cert, key].map(|path| path.display().to_string());
    must(&format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {key} -out \
         {cert} -days 30 -subj /CN={name} -addext subjectAltName=DNS:localhost,DNS:lab.example"
    ));
    [cert, key]
}

/// Two idle programs with a page that has this certificate.
fn idle(lab: &Lab, cert: &str, key: &str) -> (Running, Site) {
    let mut session = lab.start([
        "pair",
        "--web",
        "127.0.0.1:0",
        "--web-cert",
        cert,
        "--web-key",
        key,
        "--left",
        "sleep 600",
        "--right",
        "sleep 600",
    ]);
    let site = Site::of(&mut session);
    (session, site)
}

/// The output of curl, with the status of the answer as the last line; 000 without an answer.
fn curl(words: &str) -> String {
    output_of(&format!("curl -s --max-time 30 -w '\\n%{{http_code}}' {words}"))
}

fn encrypted(lab: &Lab) {
    let [cert, key] = certificate(lab, "first");
    let (session, site) = idle(lab, &cert, &key);
    let at = format!("https://localhost:{}", site.port);
    assert!(session.stderr().contains(&format!("{at}/#token=")), "{}", session.stderr());
    let bearer = format!("-H 'Authorization: Bearer {}'", site.full);
    let page = curl(&format!("--cacert {cert} {bearer} {at}/v1/page"));
    assert!(page.ends_with("\n200") && page.contains("\"kind\":\"pair\""), "{page}");
    let page = curl(&format!("--cacert {cert} --tls-max 1.2 {bearer} {at}/v1/page"));
    assert!(page.ends_with("\n200"), "TLS 1.2: {page}");
    let old = curl(&format!("--cacert {cert} --tls-max 1.1 --ciphers ALL:@SECLEVEL=0 {at}/"));
    assert!(old.ends_with("000"), "TLS 1.1: {old}");
    let page = curl(&format!("--cacert {cert} {at}/v1/page"));
    assert!(page.ends_with("\n401"), "without a token: {page}");

    let login = format!(
        "-i --cacert {cert} -H 'Content-Type: application/json' -d '{{\"token\":\"{}\"}}'",
        site.full
    );
    let answer = curl(&format!("{login} {at}/v1/login")).to_lowercase();
    assert!(answer.ends_with("\n204") && answer.contains("; secure"), "{answer}");

    // The certificate says which names this server has.
    let as_host = |host: &str| curl(&format!("--cacert {cert} {bearer} -H 'Host: {host}' {at}/"));
    assert!(as_host("lab.example").ends_with("\n200"));
    assert!(as_host("evil.example").ends_with("\n403"));

    let plain = curl(&format!("{bearer} http://localhost:{}/v1/page", site.port));
    assert!(plain.ends_with("\n400") && plain.contains("https://"), "{plain}");
    let mut socket = TcpStream::connect(("127.0.0.1", site.port)).expect("the page listens");
    socket.write_all(&[0xff; 4000]).expect("it is sent");
    let mut answer = String::new();
    // Whatever the server answers, it ends the connection.
    let _ = socket.read_to_string(&mut answer);

    // The stream of a page, over TLS.
    let script = format!(
        "openssl s_client -quiet -CAfile {cert} -verify_return_error -connect \
         localhost:{}",
        site.port
    );
    let mut client = Command::new("sh");
    client.args(["-c", &format!("exec {script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.stderr(Stdio::null()).spawn().expect("openssl starts");
    let request = format!(
        "GET /v1/stream HTTP/1.1\r\nHost: localhost:{}\r\nConnection: Upgrade\r\nUpgrade: \
         websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \
         dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {}\r\n\r\n",
        site.port, site.full
    );
    let mut input = client.stdin.take().expect("its input");
    input.write_all(request.as_bytes()).expect("the request is sent");
    let mut output = client.stdout.take().expect("its output");
    let mut text = Vec::new();
    let mut chunk = [0; 1024];
    while !String::from_utf8_lossy(&text).contains("\"type\":\"hello\"") {
        let n = output.read(&mut chunk).expect("the stream");
        assert!(n > 0, "the stream ended: {}", String::from_utf8_lossy(&text));
        text.extend(&chunk[..n]);
    }
    assert!(String::from_utf8_lossy(&text).starts_with("HTTP/1.1 101"));
    drop(input);
    let _ = client.kill();
    let _ = client.wait();

    kill(session.pid(), Signal::SIGTERM).expect("it runs");
    session.finish();
}

fn refused(lab: &Lab) {
    let [cert, key] = certificate(lab, "good");
    let [other, other_key] = certificate(lab, "other");
    let path = |name: &str| lab.path(name).display().to_string();
    let make = |name: &str, command: &str| {
        must(&format!("{command} && chmod 600 {}", path(name)));
        path(name)
    };
    let open_key = path("open.key");
    must(&format!("cp {key} {open_key} && chmod 644 {open_key}"));
    let der = make("der", &format!("openssl x509 -in {cert} -outform der -out {}", path("der")));
    let secret = make(
        "secret",
        &format!("openssl pkey -in {key} -aes256 -passout pass:x -out {}", path("secret")),
    );
    let short = make("short", &format!("openssl genrsa -out {} 1024", path("short")));
    let cut = make("cut", &format!("head -c 300 {cert} > {}", path("cut")));
    let long = make("long", &format!("head -c 1000000 /dev/zero > {}", path("long")));
    let rubbish = make(
        "rubbish",
        &format!(
            "printf -- '-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n' > {}",
            path("rubbish")
        ),
    );
    let serve = |cert: &str, key: &str| {
        let words = ["--web", "127.0.0.1:0", "--web-cert", cert, "--web-key", key];
        lab.weir([&["pair", "--left", "true", "--right", "true"][..], &words].concat())
    };
    let is_refused = |cert: &str, key: &str, advice: &str| {
        let done = serve(cert, key);
        assert!(done.code == 2 && done.stderr.contains(advice), "{advice}: {done:?}");
    };
    is_refused(&path("nowhere"), &key, "cannot be read: No such file");
    is_refused(&cert, &path("nowhere"), "cannot be read: No such file");
    is_refused(&path(""), &key, "cannot be read");
    is_refused(&der, &key, "holds no certificate; it must have the form PEM");
    is_refused(&key, &key, "holds no certificate");
    is_refused(&cut, &key, "cannot be used");
    is_refused(&rubbish, &key, "cannot be used");
    is_refused(&long, &key, "longer than");
    is_refused("/dev/zero", &key, "longer than");
    is_refused(&cert, &cert, "holds no private key");
    is_refused(&cert, &other_key, "does not belong to the certificate");
    is_refused(&other, &key, "does not belong to the certificate");
    is_refused(&cert, &open_key, "'chmod o-rwx' it");
    is_refused(&cert, &secret, "is encrypted");
    is_refused(&cert, &short, "RSA keys of 2048");
    let alone = lab.weir(["pair", "--web-cert", &cert, "--left", "true", "--right", "true"]);
    assert!(alone.code == 2 && alone.stderr.contains("--web"), "{alone:?}");

    // One file may hold certificate and key. A certificate that has expired or is not yet valid
    // only causes a warning.
    let both = make("both", &format!("cat {cert} {key} > {}", path("both")));
    let words = ["--web", "127.0.0.1:0", "--web-cert", &both];
    let done = lab.weir([&["pair", "--left", "true", "--right", "true"][..], &words].concat());
    assert!(done.code == 0 && !done.stderr.contains("warning"), "{done:?}");
    lab.file(
        "ca",
        "[ca]\ndefault_ca = d\n[d]\ndatabase = db\nserial = serial\nnew_certs_dir = \
         .\ndefault_md = sha256\npolicy = p\nx509_extensions = e\n[p]\ncommonName = \
         supplied\n[e]\nsubjectAltName = DNS:localhost\n",
    );
    must(&format!("cd {} && openssl req -new -key {key} -subj /CN=x -out csr", path("")));
    let lasting = |begin: &str, end: &str| {
        let to = format!("{}.lasting", &begin[..2]);
        must(&format!(
            "cd {} && rm -f db* && : > db && echo 01 > serial && openssl ca -batch -notext \
             -selfsign -config ca -in csr -keyfile {key} -startdate {begin} -enddate {end} \
             -out {to}",
            path("")
        ));
        path(&to)
    };
    let done = serve(&lasting("200101000000Z", "210102000000Z"), &key);
    let said = "expired at 2021-01-02 00:00:00Z: browsers refuse it";
    assert!(done.code == 0 && done.stderr.contains(said), "{done:?}");
    let done = serve(&lasting("480101000000Z", "490101000000Z"), &key);
    assert!(done.code == 0 && done.stderr.contains("is valid from 2048-01-01"), "{done:?}");
    is_refused(&lasting("220101000000Z", "210101000000Z"), &key, "cannot be used");
    let soon = path("soon");
    must(&format!("openssl req -x509 -key {key} -days 3 -subj /CN=x -out {soon}"));
    let done = serve(&soon, &key);
    assert!(done.code == 0 && done.stderr.contains("ends at 20"), "{done:?}");

    // With a certificate, other machines may reach the page.
    let words = ["--web", "0.0.0.0:0", "--web-cert", &cert, "--web-key", &key];
    let done = lab.weir([&["pair", "--left", "true", "--right", "true"][..], &words].concat());
    assert!(done.code == 0 && done.stderr.contains("https://localhost:"), "{done:?}");
    let open = lab.weir(["pair", "--web", "0.0.0.0:0", "--left", "true", "--right", "true"]);
    assert!(open.code == 2 && open.stderr.contains("--web-cert"), "{open:?}");
}

fn half_done(lab: &Lab) {
    let [cert, key] = certificate(lab, "busy");
    let (session, site) = idle(lab, &cert, &key);
    // The start of a client's first message: it announces 512 bytes, and a few follow.
    let begin = [22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let mut held = Vec::new();
    // More connections than the server serves at once.
    for n in 0..300 {
        let mut socket = TcpStream::connect(("127.0.0.1", site.port)).expect("the page listens");
        // A third of the clients send nothing, and a third send half of the start.
        if n % 3 > 0 {
            // The server may have closed the connection.
            let _ = socket.write_all(&begin[..begin.len() * (n % 3) / 2]);
        }
        held.push(socket);
        if n % 100 == 99 {
            let bearer = format!("-H 'Authorization: Bearer {}'", site.full);
            let page =
                curl(&format!("--cacert {cert} {bearer} https://localhost:{}/v1/page", site.port));
            assert!(page.ends_with("\n200"), "after {n} handshakes: {page}");
        }
    }
    // In the end, the server closes every connection.
    for mut socket in held {
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a time limit");
        let mut rest = Vec::new();
        match socket.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => {
                let late = std::io::ErrorKind::WouldBlock;
                assert_ne!(error.kind(), late, "a half-done handshake is kept");
            }
        }
    }
    kill(session.pid(), Signal::SIGTERM).expect("it runs");
    session.finish();
}

fn confined(lab: &Lab) {
    let _wire = Wire::new();
    let [cert, key] = certificate(lab, "before");
    // Only root can read the key.
    must(&format!("chown 0 {key} && chmod 600 {key}"));
    let user = OTHER_USER.to_string();
    let words = ["--web", "127.0.0.1:18934", "--web-cert", &cert, "--web-key", &key];
    let mut daemon = Daemon::start(lab, &[&words[..], &["--user", &user]].concat());
    let site = Site::of(&mut daemon.running);
    let bearer = format!("-H 'Authorization: Bearer {}'", site.full);
    let page = curl(&format!("-k {bearer} https://localhost:{}/v1/page", site.port));
    assert!(page.ends_with("\n200") && page.contains("\"kind\":\"serve\""), "{page}");
    // The output of the client names the subject of the certificate.
    let subject = || {
        let port = site.port;
        output_of(&format!("openssl s_client -connect 127.0.0.1:{port} </dev/null 2>&1"))
    };
    assert!(subject().contains("CN = before"), "{}", subject());
    // The certificate is renewed.
    let [new, new_key] = certificate(lab, "after");
    must(&format!("chown {OTHER_USER} {new_key} && mv {new_key} {key} && mv {new} {cert}"));
    kill(daemon.pid(), Signal::SIGHUP).expect("it runs");
    until("the new certificate is used", || subject().contains("CN = after"));
    assert!(daemon.running.stderr().contains("read again"));
    // A key that the daemon's user cannot read changes nothing, and neither does a file without a
    // certificate.
    must(&format!("chown 0 {key} && chmod 600 {key}"));
    kill(daemon.pid(), Signal::SIGHUP).expect("it runs");
    until("the error is reported", || daemon.running.stderr().contains("Permission denied"));
    fs::write(&cert, "nothing").expect("a file");
    kill(daemon.pid(), Signal::SIGHUP).expect("it runs");
    until("the error is reported", || daemon.running.stderr().contains("holds no certificate"));
    assert!(daemon.running.stderr().contains("stays in use"));
    assert!(subject().contains("CN = after"), "{}", subject());
    kill(daemon.pid(), Signal::SIGTERM).expect("it runs");
    daemon.finish();
}
