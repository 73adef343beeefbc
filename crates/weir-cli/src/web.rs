//! `--web`: the address of the web page, and the tokens with which it is opened.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use weir_control::dashboard::Studies;
use weir_control::server::{StudiesOrWhy, Tls, Token, Validity, WebAccess};
use weir_linux::process::User;
use weir_live::remote::PageParts;

use crate::args::WebArgs;
use crate::output::{Failure, USAGE, say};
use crate::studies::Workshop;

/// The bound address of a page, with its tokens.
pub(crate) struct Page {
    listener: TcpListener,
    access: WebAccess,
    /// The token with all rights, then the token that permits reading only.
    tokens: [String; 2],
    studies: StudiesOrWhy,
}

impl Page {
    /// Binds the address, if the page is requested, and draws new tokens.
    ///
    /// Call this before the process enters its own namespaces, so that the address belongs to the
    /// user's machine.
    pub(crate) fn bind(args: &WebArgs) -> Result<Option<Self>, Failure> {
        Self::with_tokens(args, None, || Ok([random()?, random()?]))
    }

    /// Binds the address, if the page is requested. The tokens are in the daemon's state directory,
    /// so an open page continues after a restart. With `confined`, studies have only the rights
    /// that the daemon keeps.
    pub(crate) fn of_daemon(
        args: &WebArgs,
        state: &Path,
        user: Option<User>,
        confined: bool,
    ) -> Result<Option<Self>, Failure> {
        let tokens = || kept_tokens(&state.join(TOKENS), user);
        Self::with_tokens(args, confined.then_some(user), tokens)
    }

    /// Binds the address and starts the spawner of studies. With `confine`, the spawner gives up
    /// its rights and becomes the given user, if there is one.
    fn with_tokens(
        args: &WebArgs,
        confine: Option<Option<User>>,
        tokens: impl FnOnce() -> Result<[String; 2], Failure>,
    ) -> Result<Option<Self>, Failure> {
        let Some(wanted) = args.web else { return Ok(None) };
        let address = wanted.unwrap_or(DEFAULT);
        // The spawner of studies is forked before this process knows the private key and the
        // tokens. The page works without studies, too, and says why there are none.
        let studies = Workshop::start(confine)
            .map(|workshop| Arc::new(workshop) as Arc<dyn Studies>)
            .map_err(|error| format!("no process for simulations can be started: {error}"));
        let tls = tls(args)?;
        if !address.ip().is_loopback() && tls.is_none() && !args.insecure {
            let message = format!(
                "--web {address}: other machines could read the token on its way; name a \
                 certificate with --web-cert, or stay on 127.0.0.1 and put a proxy with TLS in \
                 front (docs/web.md), or add --insecure"
            );
            return Err(Failure::new(USAGE, message));
        }
        let bound = TcpListener::bind(address).or_else(|error| match (wanted, error.kind()) {
            (None, ErrorKind::AddrInUse) => TcpListener::bind((DEFAULT.ip(), 0)),
            _ => Err(error),
        });
        let listener = bound.map_err(|error| {
            Failure::of_weir(format!("--web: cannot listen on {address}: {error}"))
        })?;
        let tokens = tokens()?;
        let [full, read] = tokens.each_ref().map(|token| Token::new(token));
        let (Some(full), Some(read)) = (full, read) else {
            return Err(Failure::of_weir("--web: the saved tokens are damaged; remove them"));
        };
        let access = WebAccess { full, read, hosts: args.allowed_host.clone(), tls };
        Ok(Some(Self { listener, access, tokens, studies }))
    }

    /// The listener, the tokens and the studies, for a server. A page may have several servers, one
    /// after another.
    pub(crate) fn endpoint(&self) -> Result<PageParts, Failure> {
        let listener = self
            .listener
            .try_clone()
            .map_err(|error| Failure::of_weir(format!("--web: {error}")))?;
        Ok(PageParts { listener, access: self.access.clone(), studies: self.studies.clone() })
    }

    /// The certificate of the page, for [`reload`].
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.access.tls.clone()
    }

    /// Prints the addresses of the page, each with its token after `#`. A browser does not send
    /// this part with the request for the page.
    pub(crate) fn announce(&self) {
        let Ok(mut address) = self.listener.local_addr() else { return };
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let scheme = if self.access.tls.is_some() { "https" } else { "http" };
        let host = self
            .name()
            .map_or_else(|| address.to_string(), |name| format!("{name}:{}", address.port()));
        let [full, read] = &self.tokens;
        say(format_args!(
            "weir: the page is at {scheme}://{host}/#token={full}\n\
             weir: to look only: {scheme}://{host}/#token={read}\n"
        ));
    }

    /// A name of this server for which the certificate is valid, so that a browser accepts it. On a
    /// loopback address, this can only be `localhost`.
    fn name(&self) -> Option<String> {
        let is_local = self.listener.local_addr().is_ok_and(|bound| bound.ip().is_loopback());
        let mut names = self.access.tls.as_ref()?.names().into_iter();
        names.find(|name| name == "localhost" || !is_local)
    }
}

/// The certificate of the page, if it has one. A certificate that browsers refuse only causes a
/// warning.
fn tls(args: &WebArgs) -> Result<Option<Tls>, Failure> {
    let Some(certificate) = &args.web_cert else { return Ok(None) };
    let key = args.web_key.as_ref().unwrap_or(certificate);
    let tls = Tls::read(certificate, key)
        .map_err(|error| Failure::new(USAGE, format!("--web-cert: {error}")))?;
    warn(&tls, certificate);
    Ok(Some(tls))
}

/// Reads the certificate again, and reports the result.
pub(crate) fn reload(tls: &Tls, certificate: &Path) {
    let name = certificate.display();
    match tls.reload() {
        Ok(()) => {
            say(format_args!("weir: the certificate {name} read again\n"));
            warn(tls, certificate);
        }
        Err(error) => say(format_args!(
            "weir: SIGHUP: {error}; the certificate that was read before stays in use\n"
        )),
    }
}

/// Warns if the certificate is not valid now, or ends soon.
fn warn(tls: &Tls, certificate: &Path) {
    let date = |time: SystemTime| {
        let time = jiff::Timestamp::try_from(time).ok();
        time.map_or("?".to_owned(), |time| time.strftime("%F %TZ").to_string())
    };
    let what = match tls.validity(SystemTime::now()) {
        Validity::Valid => return,
        Validity::EndsSoon(end) => format!("ends at {}; renew it", date(end)),
        Validity::Expired(end) => format!("expired at {}: browsers refuse it; renew it", date(end)),
        Validity::NotYet(begin) => format!(
            "is valid from {} on: browsers refuse it until then; compare the clock of this machine",
            date(begin)
        ),
    };
    say(format_args!("weir: warning: the certificate {} {what}\n", certificate.display()));
}

/// The tokens in a file. If it does not exist, it is created with new tokens.
fn kept_tokens(path: &Path, user: Option<User>) -> Result<[String; 2], Failure> {
    let failed = |error: std::io::Error| {
        Failure::of_weir(format!("--web: cannot keep the tokens in {}: {error}", path.display()))
    };
    match fs::read_to_string(path) {
        Ok(text) => {
            let mut lines = text.lines().map(str::to_owned);
            // A user could have copied the file with other permissions.
            fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
            Ok([lines.next().unwrap_or_default(), lines.next().unwrap_or_default()])
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let tokens = [random()?, random()?];
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .map_err(failed)?;
            file.write_all(format!("{}\n{}\n", tokens[0], tokens[1]).as_bytes()).map_err(failed)?;
            if let Some(User { uid, gid }) = user {
                chown(path, Some(uid), Some(gid)).map_err(failed)?;
            }
            Ok(tokens)
        }
        Err(error) => Err(failed(error)),
    }
}

/// A token that cannot be guessed: 128 random bits.
fn random() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::of_weir(format!("--web: no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The address of the page if `--web` names none.
const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8090);
/// The file of a daemon's tokens in its state directory. The first line is the token with all
/// rights, the second the token that permits reading only.
const TOKENS: &str = "web-tokens";

#[cfg(test)]
mod tests {
    use super::*;

    fn args(web: &str, insecure: bool) -> WebArgs {
        let web = Some(Some(web.parse().unwrap()));
        WebArgs { web, allowed_host: Vec::new(), web_cert: None, web_key: None, insecure }
    }

    #[test]
    fn an_open_address_needs_the_insecure_option() {
        assert!(Page::bind(&args("0.0.0.0:0", false)).is_err());
        assert!(Page::bind(&args("0.0.0.0:0", true)).unwrap().is_some());
        assert!(Page::bind(&args("127.0.0.1:0", false)).unwrap().is_some());
    }

    #[test]
    fn tokens_of_a_daemon_stay_the_same_and_are_private() {
        let directory = std::env::temp_dir().join(format!("weir-web-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let tokens = || {
            let page = Page::of_daemon(&args("127.0.0.1:0", false), &directory, None, false);
            page.unwrap().unwrap().tokens
        };
        let first = tokens();
        assert_eq!(first, tokens());
        assert!(first[0] != first[1] && first.iter().all(|token| token.len() == 32));
        let mode = fs::metadata(directory.join(TOKENS)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(&directory).unwrap();
    }
}
