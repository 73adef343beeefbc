//! Containers of a lab, through the command of their engine: `docker` or `podman`.
//!
//! The network of a host belongs to a small separate container, which does nothing but exist, like
//! the pause container of a pod in Kubernetes. The engine connects this container to no network;
//! Weir gives it the interface of the host. The host's own container then joins the namespace, so
//! its program finds the network complete from its first instruction. Every container and image has
//! the label of the lab. A guard ([`weir_linux::helper::Guard`]) removes everything with this label
//! in the end, even after `kill -9`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use weir_linux::helper::{Duty, Guard};
use weir_linux::netns::NetNs;
use weir_sim::scenario::{EngineName, HostProgram, Root, Words};

/// Why an engine cannot run the containers of a lab.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine's command is not installed.
    #[error("containers need {0}, which is not installed")]
    NotInstalled(&'static str),
    /// The engine does not answer.
    #[error("{engine} does not answer: {reason}")]
    NoAnswer {
        /// The engine.
        engine: &'static str,
        /// The message of its command.
        reason: String,
    },
    /// There is no such image.
    #[error("there is no image {image} on this machine; {engine} has {known}")]
    NoImage {
        /// The engine.
        engine: &'static str,
        /// The image.
        image: String,
        /// The images that exist.
        known: String,
    },
    /// A command of the engine failed.
    #[error("{engine} {command} failed: {reason}")]
    Failed {
        /// The engine.
        engine: &'static str,
        /// The command.
        command: String,
        /// The command's message.
        reason: String,
    },
    /// The command, or a helper of Weir, could not be started.
    #[error("cannot start {what}: {source}")]
    Start {
        /// The command or helper.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// On this kind of processor, Weir has no program for the containers that have the networks.
    #[error("containers can be hosts on x86-64 and aarch64 only")]
    Processor,
}

/// The engine that a host requests, or the first installed engine.
pub(crate) fn choose(wanted: Option<EngineName>) -> Result<EngineName, EngineError> {
    let known = [EngineName::Docker, EngineName::Podman];
    let candidates = wanted.map_or(known.to_vec(), |engine| vec![engine]);
    let found = candidates.iter().copied().find(|engine| is_installed(engine.command()));
    found.ok_or(EngineError::NotInstalled(wanted.map_or("docker or podman", EngineName::command)))
}

fn is_installed(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(command).is_file())
}

/// Checks that the machine has an image. Weir never fetches images.
pub(crate) fn check_image(engine: EngineName, image: &str) -> Result<(), EngineError> {
    if call(engine, &["image", "inspect", "--format", "{{.Id}}", image]).is_ok() {
        return Ok(());
    }
    let name = engine.command();
    let listed = call(engine, &["images", "--format", "{{.Repository}}:{{.Tag}}"]);
    let listed = listed.map_err(|error| match error {
        EngineError::Failed { reason, .. } => EngineError::NoAnswer { engine: name, reason },
        error => error,
    })?;
    let all: Vec<&str> = listed.lines().filter(|line| !line.contains("<none>")).collect();
    let known = match all.as_slice() {
        [] => "none".to_owned(),
        some => some[..some.len().min(MOST_SHOWN)].join(", "),
    };
    Err(EngineError::NoImage { engine: name, image: image.to_owned(), known })
}

/// The standard output of a command of the engine.
fn call(engine: EngineName, words: &[&str]) -> Result<String, EngineError> {
    call_with(engine, words, &[])
}

/// The standard output of a command of the engine that reads `input`.
fn call_with(engine: EngineName, words: &[&str], input: &[u8]) -> Result<String, EngineError> {
    let name = engine.command();
    let start = |source| EngineError::Start { what: name, source };
    let mut child = Command::new(name)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that fails may leave its input unread; its exit status reports the failure.
        let _ = stdin.write_all(input);
    }
    let done = child.wait_with_output().map_err(start)?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned());
    }
    Err(EngineError::Failed {
        engine: name,
        command: words.iter().take(2).copied().collect::<Vec<_>>().join(" "),
        reason: reason(&String::from_utf8_lossy(&done.stderr)),
    })
}

/// The line of an engine's messages that says what is wrong.
pub(super) fn reason(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines.clone().find(|line| line.to_lowercase().contains("error"));
    let line = telling.or_else(|| lines.next_back()).unwrap_or("no message was printed");
    line.chars().take(LONGEST_REASON).collect()
}

/// The containers of a lab. Dropping this removes them.
#[derive(Debug)]
pub(crate) struct Containers {
    /// The name of the lab, with which the names of all its containers begin.
    lab: String,
    /// The label of the lab's containers and images.
    label: String,
    /// The image of the containers that have networks, by engine.
    images: BTreeMap<&'static str, String>,
    /// The containers of each host, by node.
    hosts: BTreeMap<usize, Container>,
    /// Removes the containers and images; `None` before the first image is created.
    guard: Option<Guard>,
    /// `false` if the engine may still be creating containers. The guard then repeats the removal.
    is_settled: bool,
}

/// The containers of a host.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) engine: EngineName,
    /// The name of the host's own container.
    pub(crate) name: String,
    /// The name of the container that has the network.
    network: String,
}

impl Containers {
    /// The containers of a lab with this name; none exists yet.
    pub(crate) fn new(lab: &str) -> Self {
        Self {
            lab: plain(lab),
            label: format!("{LABEL}={}-{}", plain(lab), std::process::id()),
            images: BTreeMap::new(),
            hosts: BTreeMap::new(),
            guard: None,
            is_settled: true,
        }
    }

    pub(crate) fn of(&self, node: usize) -> Option<&Container> {
        self.hosts.get(&node)
    }

    /// Creates the container that has the network of a node, and returns the namespace of the
    /// network. `names` are the names and addresses of all hosts.
    pub(crate) fn add_network(
        &mut self,
        node: usize,
        host: &str,
        wanted: Option<EngineName>,
        names: &[(String, Ipv4Addr)],
    ) -> Result<Arc<NetNs>, EngineError> {
        let engine = choose(wanted)?;
        let image = self.image(engine)?;
        let name = format!("{}-{}", self.lab, plain(host));
        let network = format!("{name}-net");
        let names: Vec<String> =
            names.iter().map(|(name, address)| format!("{name}:{address}")).collect();
        let mut words = vec!["run", "-d", "--network", "none", "--label", &self.label];
        words.extend(["--name", &network, "--hostname", host]);
        names.iter().for_each(|name| words.extend(["--add-host", name]));
        words.push(&image);
        call(engine, &words)?;
        let process = call(engine, &["inspect", "--format", "{{.State.Pid}}", &network])?;
        let process = process.parse::<u32>().ok().filter(|process| *process > 0);
        let namespace = process.ok_or(io::ErrorKind::NotFound.into()).and_then(NetNs::of_process);
        let namespace = namespace.map_err(|error: io::Error| EngineError::Failed {
            engine: engine.command(),
            command: "inspect".to_owned(),
            reason: format!("{network} has no network: {error}"),
        })?;
        self.hosts.insert(node, Container { engine, name, network });
        Ok(Arc::new(namespace))
    }

    /// Whether the engine lists the host's own container, in whatever state.
    pub(crate) fn is_created(&self, container: &Container) -> bool {
        let filter = format!("label={}", self.label);
        let words = ["ps", "-a", "--filter", &filter, "--format", "{{.Names}}"];
        let listed = call(container.engine, &words).unwrap_or_default();
        // Docker separates several names of a container by commas.
        listed.split([',', '\n']).any(|name| name.trim() == container.name)
    }

    /// Makes the guard repeat the removal, because the engine may still be creating containers.
    pub(crate) fn remove_repeatedly(&mut self) {
        self.is_settled = false;
    }

    /// The image of the containers that have networks. Creates the image if necessary.
    fn image(&mut self, engine: EngineName) -> Result<String, EngineError> {
        let name = engine.command();
        if let Some(image) = self.images.get(name) {
            return Ok(image.clone());
        }
        let pause = pause().ok_or(EngineError::Processor)?;
        let start = |source| EngineError::Start { what: "a guard", source };
        // The guard is ready before the engine gets the first image.
        let guard = match &self.guard {
            Some(guard) => guard,
            None => self.guard.insert(Guard::start(false).map_err(start)?),
        };
        let script = REMOVAL.replace("ENGINE", name).replace("LABEL", &self.label);
        let undo = ["/bin/sh", "-c", &script].map(OsString::from).to_vec();
        let otherwise = Vec::new();
        let duty = Duty { undo, otherwise, attempts: 3, within: LONGEST_REMOVAL };
        guard.entrust(duty).map_err(start)?;
        let changes = [r#"ENTRYPOINT ["/pause"]"#.to_owned(), format!("LABEL {}", self.label)];
        let words = ["import", "--change", &changes[0], "--change", &changes[1], "-"];
        let answer = call_with(engine, &words, &archive("pause", &pause))?;
        // Podman writes more than the identifier.
        let image = answer.lines().last().unwrap_or_default().trim().to_owned();
        self.images.insert(name, image.clone());
        Ok(image)
    }

    /// The command that runs the container of a node until its program ends. `volumes` has the
    /// absolute path on this machine of each volume of the program.
    pub(crate) fn run(
        &self,
        container: &Container,
        program: &HostProgram,
        volumes: &[PathBuf],
    ) -> Vec<String> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut all = vec![container.engine.command().to_owned()];
        all.extend(words("run --pull never"));
        all.push(format!("--network=container:{}", container.network));
        all.extend(["--label".into(), self.label.clone(), "--name".into(), container.name.clone()]);
        let Root::Image { name: image, read_only, .. } = &program.root else { return all };
        if *read_only {
            all.push("--read-only".into());
        }
        for (name, value) in &program.env {
            all.extend(["--env".into(), format!("{name}={value}")]);
        }
        for (volume, host) in program.volumes.iter().zip(volumes) {
            let mode = if volume.read_only { ":ro" } else { "" };
            all.extend(["--volume".into(), format!("{}:{}{mode}", host.display(), volume.inside)]);
        }
        all.push(image.clone());
        all.extend(program.command.iter().flat_map(Words::to_execute));
        all
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take()
            && self.is_settled
        {
            // If the removal fails, the user finds the containers by their label. A guard that is
            // dropped without `finish` repeats the removal.
            guard.finish();
        }
    }
}

impl Container {
    /// The command that runs `command` in the container.
    pub(crate) fn exec(&self, command: &[String]) -> Vec<String> {
        let mut words =
            vec![self.engine.command().to_owned(), "exec".to_owned(), self.name.clone()];
        words.extend(command.iter().cloned());
        words
    }

    /// The command that succeeds while the container's program runs.
    pub(crate) fn is_running(&self) -> Vec<String> {
        ["top", &self.name].iter().fold(vec![self.engine.command().to_owned()], |mut all, word| {
            all.push((*word).to_owned());
            all
        })
    }
}

/// A name with `-` in place of each character that an engine does not accept.
fn plain(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
    name.chars().map(keep).collect()
}

/// A program that waits for ever: an ELF file with a header, a segment, and a few instructions.
fn pause() -> Option<Vec<u8>> {
    let (machine, code): (u16, &[u8]) = if cfg!(target_arch = "x86_64") {
        // mov eax, 34 (pause); syscall; jmp to the first instruction.
        (62, &[0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7])
    } else if cfg!(target_arch = "aarch64") {
        // mov x8, 73 (ppoll); mov x0 to x4, 0; svc 0; b to the first instruction.
        (
            183,
            &[
                0x28, 0x09, 0x80, 0xd2, 0x00, 0x00, 0x80, 0xd2, 0x01, 0x00, 0x80, 0xd2, 0x02, 0x00,
                0x80, 0xd2, 0x03, 0x00, 0x80, 0xd2, 0x04, 0x00, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4,
                0xf9, 0xff, 0xff, 0x17,
            ],
        )
    } else {
        return None;
    };
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let mut add = |bytes: &[u8]| file.extend_from_slice(bytes);
    let length = u64::from(HEADERS) + code.len() as u64;
    // The file's header: executable, machine, version; entry; offsets; flags; sizes.
    add(&2u16.to_le_bytes());
    add(&machine.to_le_bytes());
    add(&1u32.to_le_bytes());
    add(&(BASE + u64::from(HEADERS)).to_le_bytes());
    add(&64u64.to_le_bytes());
    add(&0u64.to_le_bytes());
    add(&0u32.to_le_bytes());
    for size in [64u16, 56, 1, 64, 0, 0] {
        add(&size.to_le_bytes());
    }
    // The segment: to be loaded, readable and executable; place, length, alignment.
    add(&1u32.to_le_bytes());
    add(&5u32.to_le_bytes());
    for word in [0, BASE, BASE, length, length, PAGE] {
        add(&word.to_le_bytes());
    }
    add(code);
    Some(file)
}

/// A tar archive with one executable file.
fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0u8; BLOCK];
    let mut put = |at: usize, text: &str| {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    put(0, name);
    put(100, "0000755\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, "00000000000\0");
    // The checksum counts its own field as spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = header.to_vec();
    archive.extend_from_slice(content);
    // Two empty blocks end the archive.
    archive.resize(archive.len().div_ceil(BLOCK) * BLOCK + 2 * BLOCK, 0);
    archive
}

/// Removes the containers of a lab, then its images. The label has no character that is special to
/// the shell.
const REMOVAL: &str = "\
    f=label=LABEL failed=0
    c=$(ENGINE ps -aq --no-trunc --filter $f) || failed=1
    [ -z \"$c\" ] || ENGINE rm -f -v $c || failed=1
    i=$(ENGINE images -q --no-trunc --filter $f) || failed=1
    [ -z \"$i\" ] || ENGINE rmi -f $i || failed=1
    exit $failed";
/// The longest time that a command of the removal may take: an engine that does not answer must not
/// keep this process from ending.
const LONGEST_REMOVAL: Duration = Duration::from_secs(15);
/// The label of all containers and images of labs.
const LABEL: &str = "weir.lab";
/// Bytes of a block in a tar archive.
const BLOCK: usize = 512;
/// Bytes of the headers of the ELF file.
const HEADERS: u16 = 64 + 56;
/// The address at which the ELF file is loaded.
const BASE: u64 = 0x40_0000;
/// The alignment of the segment in the ELF file.
const PAGE: u64 = 0x1_0000;
/// Maximum number of images in a message.
const MOST_SHOWN: usize = 20;
/// The longest quoted line of an engine's messages, in characters.
const LONGEST_REASON: usize = 400;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_program_that_waits_can_be_executed_from_its_archive() {
        let Some(pause) = pause() else { return };
        let directory = std::env::temp_dir().join(format!("weir-pause-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join("a.tar"), archive("pause", &pause)).expect("a file");
        let unpacked = Command::new("tar")
            .args(["-xf", "a.tar"])
            .current_dir(&directory)
            .status()
            .expect("tar is installed");
        assert!(unpacked.success());
        let file = directory.join("pause");
        let mode = std::fs::metadata(&file).expect("it was unpacked").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        let mut child = Command::new(&file).spawn().expect("it can be executed");
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(child.try_wait().expect("it is a child").is_none(), "it waits");
        child.kill().expect("it runs");
        child.wait().expect("it is a child");
        std::fs::remove_dir_all(&directory).expect("it exists");
    }

    #[test]
    fn the_container_of_a_host_has_its_network_its_settings_and_its_command() {
        let text = r#"
            duration = "1s"
            [[node]]
            name = "web"
            image = "box"
            read_only = true
            env = { A = "b c" }
            volumes = ["www:/www:ro"]
            command = "serve"
        "#;
        let checked = weir_sim::scenario::parse(text, "lab.toml", &weir_rules::NoFiles);
        let scenario = checked.scenario.expect("a scenario");
        let program = scenario.nodes[0].program.as_deref().expect("a program");
        let containers = Containers::new("my lab");
        let container = Container {
            engine: EngineName::Docker,
            name: "my-lab-web".into(),
            network: "my-lab-web-net".into(),
        };
        let words = containers.run(&container, program, &["/data/www".into()]);
        let label = format!("weir.lab=my-lab-{}", std::process::id());
        let expected = format!(
            "docker|run|--pull|never|--network=container:my-lab-web-net|--label|{label}|--name|\
             my-lab-web|--read-only|--env|A=b c|--volume|/data/www:/www:ro|box|/bin/sh|-c|serve"
        );
        assert_eq!(words.join("|"), expected);
    }

    #[test]
    fn the_line_with_the_error_of_an_engine_is_found() {
        let text =
            "docker: Error response from daemon: no such thing.\n\nRun 'docker run --help'\n";
        assert_eq!(reason(text), "docker: Error response from daemon: no such thing.");
        assert_eq!(reason("a\nb\n"), "b");
    }
}
