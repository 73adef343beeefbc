//! The rows of the table of keywords.

use super::{Choice, Group, Id, Keyword};

const fn choice(name: &'static str, meaning: &'static str) -> Choice {
    Choice { name, meaning }
}

const EMPTY: Keyword = Keyword {
    id: Id::Bw,
    name: "",
    aliases: &[],
    group: Group::Queue,
    argument: "",
    choices: &[],
    range: "",
    default: "",
    meaning: "",
    example: "",
    dummynet: "",
};

/// All keywords, in the order of [`Id`].
pub const TABLE: &[Keyword] = &[
    Keyword {
        id: Id::Bw,
        name: "bw",
        aliases: &["bandwidth"],
        group: Group::Rate,
        argument: "RATE",
        choices: &[choice(
            "unlimited",
            "no rate: packets take no time to send; `0` means the same",
        )],
        range: "1 bit/s to 400 Gbit/s; `0` or `unlimited` for no limit",
        default: "unlimited",
        meaning: "Rate at which packets are sent. A bare number is in bit/s; `K M G T` are powers of 1000, `Ki Mi Gi Ti` of 1024; \
                  units are `bit/s`, `b/s`, `bps`, `Byte/s`, `B/s`, `Bps`. The rate counts bytes from the IP header on, unless `overhead` says otherwise.",
        example: "bw 1.5Mbit/s",
        dummynet: "Whole numbers up to 2.1 or 4.3 Gbit/s. An interface's name as the clock is refused here as there.",
    },
    Keyword {
        id: Id::Trace,
        name: "trace",
        group: Group::Rate,
        argument: "FILE",
        range: "a Mahimahi trace, or a table whose name ends in `.csv`",
        default: "none",
        meaning: "Rate over time from a file, repeated for ever. A Mahimahi trace has one time in ms a line, at which 1504 bytes may leave. \
                  A `.csv` table has a header with `time` and any of `rate`, `delay`, `loss`.",
        example: "trace lte.up",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Schedule,
        name: "schedule",
        group: Group::Rate,
        argument: "FILE [loop]",
        choices: &[choice("loop", "begin again after the end")],
        range: "a table in the format of `trace`'s `.csv`",
        default: "none",
        meaning: "Changes of rate, delay and loss at given times; after the last one it stays as it is, unless `loop` is given.",
        example: "schedule outage.csv",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Burst,
        name: "burst",
        group: Group::Rate,
        argument: "SIZE",
        range: "0 to 1 TB",
        default: "0",
        meaning: "How many bytes leave at once after the link was idle for as long as they take.",
        example: "bw 4Mbit/s burst 15KB",
        dummynet: "`K` is 1024 there; here `KB` is 1000 and `KiB` 1024.",
        ..EMPTY
    },
    Keyword {
        id: Id::Overhead,
        name: "overhead",
        group: Group::Rate,
        argument: "KIND|BYTES [mpu BYTES] [atm]",
        choices: &[
            choice("none", "the rate counts IP bytes"),
            choice("layer2", "14 bytes: Ethernet header, as `tbf` and `htb` count"),
            choice(
                "ethernet",
                "38 bytes, at least 84: the frame on the cable with preamble and gap",
            ),
            choice("atm", "40 bytes, then ATM cells of 53 bytes for every 48: ADSL with PPPoE"),
            choice("docsis", "18 bytes, at least 64: cable modem"),
            choice("ppp", "7 bytes: PPP over a serial line"),
        ],
        range: "-1000 to 1000 bytes; mpu 0 to 65535 bytes",
        default: "none",
        meaning: "Bytes that framing adds to each packet before it is charged to the rate: a kind, or a number of bytes. \
                  `mpu` is the least size after that; `atm` after it cuts the result into cells.",
        example: "bw 8Mbit/s overhead 44 atm",
        dummynet: "Does not exist; `profile` is the nearest.",
        ..EMPTY
    },
    Keyword {
        id: Id::Profile,
        name: "profile",
        group: Group::Rate,
        argument: "FILE",
        range: "a dummynet profile file",
        default: "none",
        meaning: "A distribution of extra time for which each packet occupies the link: framing, contention, retransmission. \
                  A rate in the file holds when `bw` gives none.",
        example: "bw 20Mbit/s profile wlan.prof",
        dummynet: "Whole milliseconds, at most 1024 samples, and nothing without a rate.",
        ..EMPTY
    },
    Keyword {
        id: Id::Delay,
        name: "delay",
        group: Group::Delay,
        argument: "TIME",
        range: "0 to 1 hour",
        default: "0",
        meaning: "Propagation delay, after the packet has been sent. A bare number is in ms; units are `s`, `ms`, `us`, `ns`; fractions are exact to 1 ns.",
        example: "delay 0.25ms",
        dummynet: "Whole milliseconds up to 10000, rounded to the clock's tick.",
        ..EMPTY
    },
    Keyword {
        id: Id::Jitter,
        name: "jitter",
        group: Group::Delay,
        argument: "TIME [DISTRIBUTION] [correlation P] [ordered|reorder]",
        choices: &[
            choice("uniform", "between −TIME and +TIME"),
            choice("normal", "normal with standard deviation TIME"),
            choice("pareto", "Pareto of shape 3 with standard deviation TIME"),
            choice("paretonormal", "a quarter normal, three quarters Pareto"),
            choice("FILE.dist", "a table in netem's format"),
            choice("correlation", "of each deviation with the one before: a probability"),
            choice("ordered", "a late packet holds back those behind it"),
            choice("reorder", "packets may overtake one another"),
        ],
        range: "0 to 1 hour; correlation 0 to 1",
        default: "none; uniform, correlation 0, ordered",
        meaning: "Random deviation from the delay; the sum is never below zero. `reorder` followed by a number is the keyword of that name.",
        example: "delay 40ms jitter 5ms normal correlation 25%",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Reorder,
        name: "reorder",
        group: Group::Delay,
        argument: "P [gap N] [correlation P]",
        choices: &[
            choice("gap", "only every N-th packet is a candidate"),
            choice("correlation", "of each draw with the one before"),
        ],
        range: "0 to 1 or 0% to 100%; gap 1 to 1000000",
        default: "none; gap 1, correlation 0",
        meaning: "Probability that a packet skips the delay and so overtakes those under way.",
        example: "delay 20ms reorder 1% gap 5",
        dummynet: "Does not exist; `prob` rules over two pipes are the idiom.",
        ..EMPTY
    },
    Keyword {
        id: Id::Loss,
        name: "loss",
        group: Group::Impairment,
        argument: "P or K,p,H,r",
        range: "0 to 1 or 0% to 100%",
        default: "0",
        meaning: "Loss on the link: a lost packet has waited and used the link's time. One number: each packet by itself. \
                  Four: Gilbert-Elliott with K the loss in the good state, p good to bad, H the loss in the bad state, r bad to good.",
        example: "loss 0,0.01,1,0.25",
        dummynet: "Does not exist; `plr` loses before the queue.",
        ..EMPTY
    },
    Keyword {
        id: Id::Plr,
        name: "plr",
        group: Group::Impairment,
        argument: "P or K,p,H,r",
        range: "0 to 1 or 0% to 100%",
        default: "0",
        meaning: "Loss before the queue: a lost packet uses neither queue nor link. Numbers as for `loss`.",
        example: "plr 0.01",
        dummynet: "The same, without percent.",
        ..EMPTY
    },
    Keyword {
        id: Id::Dup,
        name: "dup",
        aliases: &["duplicate"],
        group: Group::Impairment,
        argument: "P",
        range: "0 to 1 or 0% to 100%",
        default: "0",
        meaning: "Probability that a packet arrives twice.",
        example: "dup 0.5%",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Corrupt,
        name: "corrupt",
        group: Group::Impairment,
        argument: "P",
        range: "0 to 1 or 0% to 100%",
        default: "0",
        meaning: "Probability that one bit of a packet is inverted.",
        example: "corrupt 0.1%",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Queue,
        name: "queue",
        group: Group::Queue,
        argument: "N [slots] or SIZE",
        choices: &[choice("slots", "packets; a bare number means the same")],
        range: "1 to 10000000 packets, or 1 B to 1 TB",
        default: "50 packets, more at high rates: 100 ms or twice the delay at full rate; none before `fq_codel` and the like, which have one",
        meaning: "Size of the queue, in packets, or in bytes with a unit (`B`, `KB`, `KByte`, `MB`, `KiB` …). Packets that find it full are dropped.",
        example: "bw 4Mbit/s queue 64KB",
        dummynet: "At most 100 packets or 1 MiB unless sysctls say otherwise; `K` is 1024 there.",
        ..EMPTY
    },
    Keyword {
        id: Id::Droptail,
        name: "droptail",
        group: Group::Queue,
        range: "",
        default: "on",
        meaning: "Drop arriving packets when the queue is full. This is what a queue does anyway.",
        example: "queue 50 droptail",
        dummynet: "The same.",
        ..EMPTY
    },
    Keyword {
        id: Id::Mask,
        name: "mask",
        aliases: &["flow_mask", "sched_mask"],
        group: Group::Queue,
        argument: "FIELD MASK … or all",
        choices: &[
            choice("all", "every field"),
            choice("src-ip", "IPv4 source, 32 bits"),
            choice("dst-ip", "IPv4 destination, 32 bits"),
            choice("src-ip6", "IPv6 source, 128 bits"),
            choice("dst-ip6", "IPv6 destination, 128 bits"),
            choice("src-port", "16 bits"),
            choice("dst-port", "16 bits"),
            choice("proto", "IP protocol, 8 bits"),
            choice("flow-id", "IPv6 flow label, 20 bits"),
            choice("vlan", "VLAN identifier, 12 bits"),
            choice("dscp", "6 bits"),
            choice("src-mac", "48 bits"),
            choice("dst-mac", "48 bits"),
        ],
        range: "each MASK within its field: a number, `0x…`, an address, or `/N` for the first N bits",
        default: "none: one queue and one link for all",
        meaning: "Which header bits tell flows apart. Each combination of their values gets a queue and a link of its own.",
        example: "bw 1Mbit/s mask src-ip 0x000000ff",
        dummynet: "No VLAN, DSCP and MAC; outside IPv6 addresses `/N` sets the last N bits there, here the first N. Here `queue` ends the mask.",
    },
    Keyword {
        id: Id::MaxFlows,
        name: "max_flows",
        aliases: &["max-flows"],
        group: Group::Queue,
        argument: "N",
        range: "1 to 10000000",
        default: "as many as memory allows",
        meaning: "Most flows that the mask makes at once; packets of further ones are dropped and counted until idle flows have expired.",
        example: "bw 1Mbit/s mask src-ip 0xffffffff max_flows 10000",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Weight,
        name: "weight",
        group: Group::Queue,
        argument: "N",
        range: "1 to 65536",
        default: "1",
        meaning: "Share of the link relative to other flows, for schedulers that weigh.",
        example: "weight 10",
        dummynet: "At most 100 with WF2Q+.",
        ..EMPTY
    },
    Keyword {
        id: Id::Lmax,
        name: "lmax",
        aliases: &["maxlen"],
        group: Group::Queue,
        argument: "BYTES",
        range: "64 to 65536",
        default: "1500",
        meaning: "Largest packet of a flow, for schedulers that work with timestamps.",
        example: "lmax 1500",
        dummynet: "At most 2000 or 2048.",
        ..EMPTY
    },
    Keyword {
        id: Id::Pri,
        name: "pri",
        aliases: &["priority"],
        group: Group::Queue,
        argument: "N",
        range: "0 to 63, 0 first",
        default: "0",
        meaning: "Priority, for the priority scheduler.",
        example: "pri 2",
        dummynet: "Read and printed, but without effect; `weight` is used instead.",
        ..EMPTY
    },
    Keyword {
        id: Id::Rate,
        name: "rate",
        group: Group::Flow,
        argument: "RATE",
        range: "1 bit/s to 400 Gbit/s; `0` for none",
        default: "none",
        meaning: "Rate that a flow is promised, for schedulers that promise one. Only of a `queue N`: a link's rate is `bw`.",
        example: "rate 2Mbit/s ceil 10Mbit/s",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Ceil,
        name: "ceil",
        group: Group::Flow,
        argument: "RATE",
        range: "1 bit/s to 400 Gbit/s; `0` for none",
        default: "none: all of the link",
        meaning: "Rate that a flow never exceeds, for schedulers that shape. Given to a queue, `burst SIZE` says how many \
                  bytes of each flow may leave at once after a pause, up to 4 GB.",
        example: "rate 2Mbit/s ceil 10Mbit/s burst 15KB",
        dummynet: "Does not exist; a pipe for each flow is the nearest.",
        ..EMPTY
    },
    Keyword {
        id: Id::Deadline,
        name: "deadline",
        group: Group::Flow,
        argument: "TIME",
        range: "0 to 1 hour",
        default: "0: none",
        meaning: "How long a flow's packets may wait, for schedulers that go by deadlines: a packet's is this much after its arrival.",
        example: "deadline 5ms",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Buckets,
        name: "buckets",
        group: Group::Queue,
        argument: "N",
        range: "1 to 65536",
        default: "",
        meaning: "Size of a hash table. Accepted and ignored: tables grow by themselves.",
        example: "buckets 64",
        dummynet: "Sets the size.",
        ..EMPTY
    },
    Keyword {
        id: Id::Noerror,
        name: "noerror",
        group: Group::Queue,
        range: "",
        default: "",
        meaning: "Do not report drops to the sender. Accepted and ignored: packets come over a wire, and a sender is never told.",
        example: "noerror",
        dummynet: "A local sender sees an error without it.",
        ..EMPTY
    },
    Keyword {
        id: Id::Gso,
        name: "gso",
        group: Group::Frames,
        argument: "split|whole",
        choices: &[
            choice("split", "every wire packet is shaped by itself"),
            choice("whole", "the train is shaped as one packet"),
        ],
        range: "",
        default: "split",
        meaning: "What happens to segmentation-offload trains, large frames that stand for several packets on the wire.",
        example: "gso whole",
        dummynet: "Always whole.",
        ..EMPTY
    },
    Keyword {
        id: Id::Red,
        name: "red",
        group: Group::Aqm,
        argument: "W_Q/MIN_TH/MAX_TH/MAX_P [SETTING …]",
        range: "W_Q and MAX_P above 0 up to 1; thresholds in packets, in bytes where `queue` has a size in bytes",
        default: "drop tail",
        meaning: "Random early detection as dummynet configures it: weight of the average, the two thresholds, and the probability at \
                  the upper one. The same as `aqm red` with these settings.",
        example: "bw 10Mbit/s queue 100 red 0.002/30/80/0.1 ecn",
        dummynet: "With `ecn` every packet above MIN_TH is marked, or dropped where it cannot be; here as many as MAX_P says.",
        ..EMPTY
    },
    Keyword {
        id: Id::Gred,
        name: "gred",
        group: Group::Aqm,
        argument: "W_Q/MIN_TH/MAX_TH/MAX_P [SETTING …]",
        range: "as for `red`",
        default: "drop tail",
        meaning: "`red` that goes on gently above MAX_TH: from MAX_P to 1 at twice MAX_TH.",
        example: "bw 10Mbit/s queue 200 gred 0.002/30/80/0.1",
        dummynet: "As for `red`.",
        ..EMPTY
    },
    Keyword {
        id: Id::Codel,
        name: "codel",
        group: Group::Aqm,
        argument: "[target TIME] [interval TIME] [ecn|noecn] [SETTING …]",
        range: "a bare number is in ms",
        default: "drop tail",
        meaning: "CoDel: drops by how long packets have waited. The same as `aqm codel`, whose settings may follow too.",
        example: "bw 10Mbit/s codel target 5ms interval 100ms ecn",
        dummynet: "At most 5 s; must be the last word.",
        ..EMPTY
    },
    Keyword {
        id: Id::Pie,
        name: "pie",
        group: Group::Aqm,
        argument: "[target TIME] [tupdate TIME] [alpha N] [beta N] [max_burst TIME] [max_ecnth P] [SETTING …]",
        range: "a bare number is in ms",
        default: "drop tail",
        meaning: "PIE as dummynet has it. The same as `aqm pie` with the variant of that name, whose settings may follow too: \
                  `ecn`, `noecn`, `capdrop`, `nocapdrop`, `drand`, `nodrand`, `onoff`, `dre`, `ts`.",
        example: "bw 10Mbit/s pie target 15ms tupdate 15ms alpha 0.125 beta 1.25 noecn",
        dummynet: "The manual says `drand`, the program takes `derand` only. Here both are taken.",
        ..EMPTY
    },
    Keyword {
        id: Id::Aqm,
        name: "aqm",
        group: Group::Aqm,
        argument: "NAME [SETTING VALUE …]",
        range: "the names and settings that `weir algorithms` lists",
        default: "drop tail",
        meaning: "What decides, besides the queue's size, which packets are dropped or marked. A setting is written `target 5ms` or `target=5ms`; \
                  a switch also `ecn` and `noecn`. Settings stand directly behind the name: among them a word means the setting, also \
                  where it is a keyword elsewhere. Each flow of the queue has an AQM of its own.",
        example: "bw 10Mbit/s aqm codel target=5ms ecn",
        dummynet: "`red`, `gred`, `codel`, `pie`, and schedulers `fq_codel` and `fq_pie`.",
        ..EMPTY
    },
    Keyword {
        id: Id::Ring,
        name: "ring",
        group: Group::Device,
        argument: "N or SIZE [sent]",
        choices: &[choice(
            "sent",
            "a place is free when its packet has left; otherwise when the wire begins with it",
        )],
        range: "1 to 1000000 packets, or 1 B to 1 TB",
        default: "none; 256 with any other word of a network card",
        meaning: "Puts a network card's transmission ring between the queue and the wire: packets in it have left the queue, and no \
                  scheduler or AQM decides about them any more. The queue gives it packets while it has room.",
        example: "bw 1Gbit/s ring 64",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Dql,
        name: "dql",
        aliases: &["bql"],
        group: Group::Device,
        argument: "[min SIZE] [max SIZE] [hold TIME]",
        choices: &[
            choice("min", "least limit"),
            choice("max", "greatest limit"),
            choice("hold", "how long it was too large before it falls"),
        ],
        range: "up to 1879048192 B; hold up to 1 hour",
        default: "off; min 0, max 1879048192 B, hold 1s",
        meaning: "Dynamic queue limits, as in Linux: the ring holds no more bytes than were found necessary to keep the wire busy.",
        example: "bw 1Gbit/s ring 256 dql",
        dummynet: "Does not exist.",
    },
    Keyword {
        id: Id::Coalesce,
        name: "coalesce",
        group: Group::Device,
        argument: "N/TIME",
        range: "1 to 65535 packets, TIME up to 1 hour",
        default: "off: each packet by itself",
        meaning: "The card reports packets that are done, whose places are free then, once for every N, but no later than TIME after the first \
                  of them. A bare TIME is in ms.",
        example: "bw 1Gbit/s ring 64 coalesce 16/50us",
        dummynet: "Does not exist.",
        ..EMPTY
    },
    Keyword {
        id: Id::Cpu,
        name: "cpu",
        group: Group::Device,
        argument: "TIME",
        range: "0 to 1s",
        default: "0",
        meaning: "Processor time that it takes to bring a packet into the ring, one after the other; reports of the card wait until \
                  it is done with one. A ring that is too small for it runs dry.",
        example: "bw 1Gbit/s ring 64 cpu 2us",
        dummynet: "Does not exist.",
        ..EMPTY
    },
];
