// SPDX-License-Identifier: GPL-2.0-only
/*
 * weir_recorder: plays packets to a queue discipline at exact virtual times, and records the outcome of each packet.
 *
 * This file is a kernel module and is therefore under the GPL, version 2; it is no part of the programs of the project,
 * which never link with it.
 *
 * The module is a network device, wk0, and a clock source. While a script is played, the kernel's clock stands still
 * and is set to the time of each event. Every tick in between is forced by a high-resolution timer, so that the
 * kernel's timers run at their times. Packets go straight to the enqueue and dequeue functions of the root discipline.
 *
 * A script is written to /proc/weir_recorder and is played when the file is closed. Times are in ns from the start of
 * the script and never decrease:
 *
 *   probe NAME                      before all other lines: time 0 is when the kernel function NAME has just run
 *   again 0|1                       whether one more packet is requested when the last has left, as by
 *                                   a device with room; default 1
 *   + T LEN FLOW PRIORITY TOS KIND SOURCE   a packet arrives; LEN includes the IP header; KIND is u (UDP) or a number,
 *                                   for a TCP segment without data that acknowledges so many bytes; FLOW is added
 *                                   to source port 1000, SOURCE to source address 10.0.0.1
 *   - T                             a packet is requested
 *   . T                             the clock advances
 *
 * The record is read from the same file:
 *
 *   - T ID FLAGS       the packet left; FLAGS: m marked with CE, c contents changed, . neither
 *   0 T N              no packet left, and N are inside
 *   x T ID PHASE       the packet was freed while a packet (perhaps itself) was enqueued (+) or
 *                      requested (-), or by a timer (.)
 *   t T                the probed function ran
 *   . T N              the end, with N packets inside
 *   ! WORDS            a fault of the recording
 */
#include <linux/clocksource.h>
#include <linux/hrtimer.h>
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/jhash.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/proc_fs.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#define BUFFER_BYTES (32UL << 20)	/* of a script and of a record */
#define MAX_PACKETS (1U << 20)
#define LINE_BYTES 96
/*
 * Without a probe, time 0 of a script is a multiple of this, and so of the tick and of the time units of CoDel
 * (1024 ns), PIE (64 ns) and CAKE (1 ns).
 */
#define ALIGN_NS 16000000ULL
/* The number of halts after which a tick counts as lost. */
#define TICK_HALTS 100000
/* The number of ticks within which a probed function must run. */
#define PROBE_TICKS 1000

struct packet {
	u32 digest;	/* of the bytes without the TOS field and the IP checksum */
	u8 tos;
	bool left;
};

static char *script, *record;
static size_t script_len, record_len;
static struct packet *packets;
static u32 packet_count;
static struct net_device *device;
static u64 start_ns;
static bool playing, ask_again;
static char phase;	/* PHASE of the record */

/* ---- The record */

static __printf(1, 2) void note(const char *format, ...)
{
	va_list arguments;

	if (record_len + LINE_BYTES > BUFFER_BYTES)
		return;
	va_start(arguments, format);
	record_len += vscnprintf(record + record_len, LINE_BYTES, format, arguments);
	va_end(arguments);
}

static u64 since_start(void)
{
	return ktime_get_ns() - start_ns;
}

/* ---- The clock: runs with the processor's counter, or stands at `held` */

static bool clock_held;
static u64 held;
static u64 counter_offset;

static u64 counter(void)
{
	return rdtsc_ordered() / 2 + counter_offset;
}

static u64 clock_read(struct clocksource *source)
{
	return READ_ONCE(clock_held) ? READ_ONCE(held) : counter();
}

static struct clocksource recorder_clock = {
	.name = "weir_recorder",
	.rating = 499,
	.read = clock_read,
	.mask = CLOCKSOURCE_MASK(64),
	.flags = CLOCK_SOURCE_IS_CONTINUOUS | CLOCK_SOURCE_VALID_FOR_HRES,
};

static void hold_clock(bool hold)
{
	unsigned long flags;

	local_irq_save(flags);
	if (hold)
		held = counter();
	else
		counter_offset += held - counter();
	WRITE_ONCE(clock_held, hold);
	local_irq_restore(flags);
}

static enum hrtimer_restart wake(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

static struct hrtimer waker;

/*
 * Halts until the next interrupt, unless the tick after `before` has been handled; returns whether it has. Halting
 * leaves the host's processor to the thread of qemu that raises the interrupt.
 */
static bool halt_until_tick(unsigned long before)
{
	local_irq_disable();
	if (READ_ONCE(jiffies) != before) {
		local_irq_enable();
		return true;
	}
	asm volatile("sti; hlt" ::: "memory");
	return false;
}

/* Moves the held clock to `to`, in ns of CLOCK_MONOTONIC. Each tick in between is handled before the clock moves on. */
static bool advance(u64 to)
{
	for (;;) {
		u64 now = ktime_get_ns();
		u64 tick = (div_u64(now, TICK_NSEC) + 1) * TICK_NSEC;
		unsigned long before = jiffies;
		u32 halts = 0;

		if (to < now) {
			note("! time runs backwards\n");
			return false;
		}
		WRITE_ONCE(held, held + min(tick, to) - now);
		if (tick > to)
			return true;
		hrtimer_start(&waker, ns_to_ktime(tick - 1000), HRTIMER_MODE_ABS);
		while (!halt_until_tick(before)) {
			if (++halts > TICK_HALTS) {
				note("! a tick was lost\n");
				return false;
			}
		}
		/* On a slow machine the tick's timers may have been left to ksoftirqd. */
		cond_resched();
	}
}

/* ---- The probe: a function of the kernel whose runs are noted */

static struct kprobe probe;
static char probe_name[64];
static u64 probe_runs;

static int probe_ran(struct kprobe *p, struct pt_regs *registers)
{
	probe_runs++;
	if (playing)
		note("t %llu\n", since_start());
	return 0;
}

/* Sets the probe. Call this only while the clock runs, because registration waits for other processors. */
static bool set_probe(const char *name)
{
	strscpy(probe_name, name, sizeof(probe_name));
	memset(&probe, 0, sizeof(probe));
	probe.symbol_name = probe_name;
	probe.pre_handler = probe_ran;
	if (!register_kprobe(&probe))
		return true;
	note("! no function %s\n", name);
	probe_name[0] = 0;
	return false;
}

/* ---- Packets */

static u32 digest_of(struct sk_buff *skb)
{
	u8 *data = skb_network_header(skb);
	struct iphdr *ip = (struct iphdr *)data;
	u8 tos = ip->tos;
	__sum16 check = ip->check;
	u32 digest;

	ip->tos = 0;
	ip->check = 0;
	digest = jhash(data, skb_headlen(skb), 0);
	ip->tos = tos;
	ip->check = check;
	return digest;
}

static void freed(struct sk_buff *skb)
{
	u32 id = skb->mark;

	if (playing && id < packet_count && !packets[id].left)
		note("x %llu %u %c\n", since_start(), id, phase);
}

static struct sk_buff *make_packet(u32 id, u32 len, u32 flow, u32 priority, u8 tos, const char *kind, u32 source)
{
	u32 transport = sizeof(struct udphdr), acked = 0;
	bool tcp = kind[0] != 'u';
	struct sk_buff *skb;
	struct iphdr *ip;

	if (tcp)
		transport = sizeof(struct tcphdr);
	len = max_t(u32, len, sizeof(*ip) + transport);
	skb = alloc_skb(len + 64, GFP_ATOMIC);
	if (!skb)
		return NULL;
	skb_reserve(skb, 64);
	skb_put_zero(skb, len);
	skb_reset_network_header(skb);
	skb_reset_mac_header(skb);
	ip = ip_hdr(skb);
	*ip = (struct iphdr){
		.version = 4, .ihl = 5, .tos = tos, .ttl = 64, .tot_len = htons(len),
		.protocol = tcp ? IPPROTO_TCP : IPPROTO_UDP,
		.saddr = htonl(0x0a000001 + source), .daddr = htonl(0x0a010001),
	};
	ip_send_check(ip);
	skb_set_transport_header(skb, sizeof(*ip));
	if (tcp) {
		if (kstrtou32(kind, 10, &acked))
			note("! kind %s\n", kind);
		*tcp_hdr(skb) = (struct tcphdr){
			.source = htons(1000 + flow), .dest = htons(9), .seq = htonl(1), .ack_seq = htonl(1 + acked),
			.doff = 5, .ack = 1, .window = htons(65535),
		};
	} else {
		*udp_hdr(skb) = (struct udphdr){
			.source = htons(1000 + flow), .dest = htons(9), .len = htons(len - sizeof(*ip)),
		};
	}
	skb->protocol = htons(ETH_P_IP);
	skb->dev = device;
	skb->priority = priority;
	skb->mark = id;
	skb->destructor = freed;
	/* The fields that the kernel sets before it calls a discipline. */
	qdisc_skb_cb(skb)->pkt_len = skb->len;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
	qdisc_skb_cb(skb)->pkt_segs = 1;
#endif
	return skb;
}

static void arrive(struct Qdisc *q, u32 len, u32 flow, u32 priority, u32 tos, const char *kind, u32 source)
{
	struct sk_buff *skb, *to_free = NULL;
	u32 id = packet_count;

	if (id >= MAX_PACKETS)
		return;
	skb = make_packet(id, len, flow, priority, tos, kind, source);
	if (!skb) {
		note("! no memory\n");
		return;
	}
	packets[id] = (struct packet){ .digest = digest_of(skb), .tos = tos };
	packet_count++;
	phase = '+';
	spin_lock_bh(qdisc_lock(q));
	q->enqueue(skb, q, &to_free);
	spin_unlock_bh(qdisc_lock(q));
	if (to_free)
		kfree_skb_list(to_free);
}

static struct sk_buff *ask(struct Qdisc *q)
{
	struct sk_buff *skb;
	struct sk_buff *waiting = NULL;

	phase = '-';
	spin_lock_bh(qdisc_lock(q));
	skb = q->dequeue(q);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
	swap(waiting, q->to_free);	/* drops at dequeue wait there */
#endif
	spin_unlock_bh(qdisc_lock(q));
	if (waiting)
		kfree_skb_list(waiting);
	return skb;
}

static void left(struct sk_buff *skb)
{
	u32 id = skb->mark;
	u8 tos = ip_hdr(skb)->tos;
	bool marked = (tos & INET_ECN_MASK) == INET_ECN_CE && (packets[id].tos & INET_ECN_MASK) != INET_ECN_CE;
	bool changed = digest_of(skb) != packets[id].digest;

	note("- %llu %u %s\n", since_start(), id, changed ? "c" : marked ? "m" : ".");
	packets[id].left = true;
	kfree_skb(skb);
}

static void request(struct Qdisc *q)
{
	struct sk_buff *skb = ask(q);

	if (!skb) {
		note("0 %llu %d\n", since_start(), q->q.qlen);
		return;
	}
	left(skb);
	if (ask_again && !q->q.qlen) {
		skb = ask(q);
		if (skb) {
			note("! an empty queue has a packet\n");
			kfree_skb(skb);
		}
	}
}

/* ---- A script */

/* Returns false if the script must end. */
static bool perform(struct Qdisc *q, const char *line)
{
	u32 len, flow, priority, tos, source;
	char kind[16];
	u64 at;

	if (sscanf(line + 1, "%llu %u %u %u %u %15s %u", &at, &len, &flow, &priority, &tos, kind, &source) < 1) {
		note("! not understood: %.40s\n", line);
		return false;
	}
	phase = '.';
	if (!advance(start_ns + at))
		return false;
	switch (line[0]) {
	case '+':
		arrive(q, len, flow, priority, tos, kind, source);
		return true;
	case '-':
		request(q);
		return true;
	case '.':
		return true;
	}
	note("! not understood: %.40s\n", line);
	return false;
}

/* Holds the clock and moves it to time 0 of the script. */
static bool begin(void)
{
	u64 runs = probe_runs;
	u32 ticks = 0;

	hold_clock(true);
	if (!probe_name[0]) {
		start_ns = (div_u64(ktime_get_ns(), ALIGN_NS) + 2) * ALIGN_NS;
		return advance(start_ns);
	}
	while (probe_runs == runs) {
		if (++ticks > PROBE_TICKS) {
			note("! %s does not run\n", probe_name);
			return false;
		}
		if (!advance((div_u64(ktime_get_ns(), TICK_NSEC) + 1) * TICK_NSEC))
			return false;
	}
	start_ns = ktime_get_ns();
	return true;
}

static void play(void)
{
	char *next = script, *line;
	struct Qdisc *q = rtnl_dereference(device->qdisc);

	script[script_len] = 0;
	record_len = 0;
	packet_count = 0;
	ask_again = true;
	for (; next && (next[0] == 'p' || next[0] == 'a'); ) {
		line = strsep(&next, "\n");
		if (!strncmp(line, "probe ", 6)) {
			if (!set_probe(line + 6))
				return;
		} else {
			ask_again = !strstr(line, "0");
		}
	}
	if (begin()) {
		playing = true;
		while ((line = strsep(&next, "\n")) && *line && perform(q, line))
			cond_resched();
		note(". %llu %d\n", since_start(), q->q.qlen);
		playing = false;
	}
	hold_clock(false);
	if (probe_name[0]) {
		unregister_kprobe(&probe);
		probe_name[0] = 0;
	}
}

static int recorder_open(struct inode *inode, struct file *file)
{
	if (file->f_mode & FMODE_WRITE)
		script_len = 0;
	return 0;
}

static ssize_t recorder_write(struct file *file, const char __user *from, size_t count, loff_t *position)
{
	if (count >= BUFFER_BYTES - script_len)
		return -ENOSPC;
	if (copy_from_user(script + script_len, from, count))
		return -EFAULT;
	script_len += count;
	return count;
}

static ssize_t recorder_read(struct file *file, char __user *to, size_t count, loff_t *position)
{
	return simple_read_from_buffer(to, count, position, record, record_len);
}

static int recorder_release(struct inode *inode, struct file *file)
{
	if ((file->f_mode & FMODE_WRITE) && script_len)
		play();
	return 0;
}

static const struct proc_ops recorder_operations = {
	.proc_open = recorder_open,
	.proc_read = recorder_read,
	.proc_write = recorder_write,
	.proc_release = recorder_release,
	.proc_lseek = default_llseek,
};

/* ---- The device: its queue is stopped, so the kernel itself never takes a packet */

static netdev_tx_t device_xmit(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static int device_open(struct net_device *dev)
{
	netif_stop_queue(dev);
	return 0;
}

static int device_stop(struct net_device *dev)
{
	return 0;
}

static const struct net_device_ops device_operations = {
	.ndo_open = device_open,
	.ndo_stop = device_stop,
	.ndo_start_xmit = device_xmit,
};

static void device_setup(struct net_device *dev)
{
	dev->type = ARPHRD_NONE;
	dev->hard_header_len = 0;	/* lengths count from the IP header */
	dev->addr_len = 0;
	dev->mtu = 1500;
	dev->max_mtu = 65535;
	dev->tx_queue_len = 1000;
	dev->flags = IFF_POINTOPOINT | IFF_NOARP;
	dev->netdev_ops = &device_operations;
	dev->needs_free_netdev = true;
}

static int __init recorder_init(void)
{
	int error;

	script = vmalloc(BUFFER_BYTES);
	record = vmalloc(BUFFER_BYTES);
	packets = vzalloc(array_size(MAX_PACKETS, sizeof(*packets)));
	if (!script || !record || !packets)
		return -ENOMEM;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&waker, wake, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(&waker, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	waker.function = wake;
#endif
	device = alloc_netdev(0, "wk0", NET_NAME_USER, device_setup);
	if (!device)
		return -ENOMEM;
	error = register_netdev(device);
	if (error)
		return error;
	error = clocksource_register_hz(&recorder_clock, NSEC_PER_SEC);
	if (error)
		return error;
	return proc_create("weir_recorder", 0600, NULL, &recorder_operations) ? 0 : -ENOMEM;
}
module_init(recorder_init);

/* There is no exit: the guest ends with its only task. */
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Plays packets to a queue discipline at exact virtual times");
