// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Records every packet that is enqueued to or dequeued from the disciplines to which the watched
 * devices hand their packets.
 *
 * The kernel calls these programs after the enqueue or dequeue. Except for lock-free disciplines,
 * it still holds the discipline's lock, so the length read here is the length right after the event.
 * Each processor has its own regions of the records, so no lock is needed. An interrupt may run
 * these programs while one of them writes a record on the same processor. If both wrote to the same
 * region, the interrupt would overwrite that record. Interrupts therefore have a region of their
 * own. If an interrupt is interrupted in turn, or if a region is full, events are lost and counted.
 * The device attempts more dequeues than there are packets. Attempts without a packet are not
 * recorded. The kernel reports neither a packet that bypasses an empty discipline nor a packet that
 * is refused on arrival. The counters include both.
 *
 * The programs `on_arrive`, `on_sent` and `on_free` are attached only when packets are recorded. They
 * see every packet, including packets that bypass the discipline and packets that the discipline
 * drops, and write records of single packets into the same regions. A dequeue then also has such a
 * record for each packet.
 */
#include "lengths.h"
#include "events.h"
#include "flow.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct recorder);
} recorder SEC(".maps");

/*
 * Sized by the reader: one region for each processor, and then one region for the interrupts of each
 * processor.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct region);
} regions SEC(".maps");

/* Sized by the reader: the records of each region, one region after the other. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct record);
} records SEC(".maps");

static __always_inline struct recorder *the_recorder(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&recorder, &zero);
}

static __always_inline bool is_watched(struct recorder *c, u32 netns, u32 ifindex)
{
	u64 key = (u64)netns << 32 | ifindex;
	u32 first = (ifindex * 0x9e3779b1 + netns * 0x85ebca6b) >> 22;
	u32 i;

	if (c->watched[first & (MAX_WATCHED - 1)] == key)
		return true;
	for (i = 1; i < NEIGHBOURS && i < c->near; i++)
		if (c->watched[(first + i) & (MAX_WATCHED - 1)] == key)
			return true;
	return false;
}

/*
 * The number of packets into which a discipline or the device may cut a train; 1 for any other
 * packet.
 */
static __always_inline u16 segments_of(u64 packet)
{
	u64 shared = POINTER(sk_buff, packet, head) + SEE(sk_buff, packet)->end;
	struct skb_shared_info *s = SEE(skb_shared_info, shared);

	return s->gso_size && s->gso_segs > 1 ? s->gso_segs : 1;
}

static __always_inline u32 bytes_of(u64 packet, int packets)
{
	u32 bytes = SEE(sk_buff, packet)->len;
	int i;

	if (packets <= 1)
		return bytes;
	bpf_for(i, 1, 256) {
		packet = POINTER(sk_buff, packet, next);
		if (i >= packets || !packet)
			break;
		bytes += SEE(sk_buff, packet)->len;
	}
	return bytes;
}

/* Length and counters, summed over all processors for per-CPU disciplines. */
static __always_inline void measure(struct record *r, struct processors *p, u64 address)
{
	struct Qdisc *q = SEE(Qdisc, address);
	u64 lengths;
	struct length l;
	int cpu;

	r->flags = 0;
	if (!(q->flags & TCQ_F_CPUSTATS)) {
		r->qlen = q->qstats.qlen + q->q.qlen;
		r->backlog = q->qstats.backlog;
		r->drops = q->qstats.drops;
		r->requeues = q->qstats.requeues;
		return;
	}
	lengths = POINTER(Qdisc, address, cpu_qstats);
	l = length_of(p, address, lengths, SLOT_PER_CPU);
	r->flags = SLOT_PER_CPU;
	r->qlen = l.qlen;
	r->backlog = l.backlog;
	r->drops = r->requeues = 0;
	bpf_for(cpu, 0, MAX_CPUS) {
		struct gnet_stats_queue *s;

		if (cpu >= p->cpus)
			break;
		s = SEE(gnet_stats_queue, lengths + p->apart[cpu]);
		r->drops += s->drops;
		r->requeues += s->requeues;
	}
}

/* The region to which a program writes. */
struct writer {
	struct region *own;    /* the processor's first region, with the number of programs that write */
	struct region *region; /* the region to write to; none if an interrupt was interrupted */
	u32 place;             /* the number of that region */
};

/* Takes a region in which no other program writes. Returns false if the processor has no region. */
static __always_inline bool begin_write(struct recorder *c, struct writer *w)
{
	u64 before;

	w->place = bpf_get_smp_processor_id();
	w->own = w->region = w->place < c->cpus ? bpf_map_lookup_elem(&regions, &w->place) : 0;
	if (!w->own) {
		__sync_fetch_and_add(&c->elsewhere, 1);
		return false;
	}
	/* A program that interrupts another ends before the other continues. */
	before = __sync_fetch_and_add(&w->own->busy, 1);
	if (before) {
		w->place += c->cpus;
		w->region = before == 1 ? bpf_map_lookup_elem(&regions, &w->place) : 0;
	}
	return true;
}

static __always_inline void end_write(struct writer *w, bool is_written)
{
	if (!is_written)
		__sync_fetch_and_add(&w->own->lost, 1);
	__sync_fetch_and_add(&w->own->busy, -1);
}

/* The next record to write; 0 if there is no region, or if it is full. */
static __always_inline struct record *next_record(struct recorder *c, struct writer *w)
{
	struct region *g = w->region;
	u32 at;

	if (!g || g->head - *(volatile u64 *)&g->tail > c->mask)
		return 0;
	at = w->place * (u32)(c->mask + 1) + (u32)(g->head & c->mask);
	return bpf_map_lookup_elem(&records, &at);
}

/*
 * Adds the record that was written. An atomic addition is ordered after the preceding writes if its
 * result is used. A reader that sees the new head therefore also sees the record.
 */
static __always_inline bool add_record(struct writer *w)
{
	return w->region && __sync_fetch_and_add(&w->region->head, 1) != ~0ULL;
}

/* Writes the record of a discipline's event on this processor. Returns false if it is lost. */
static __always_inline bool write_record(struct recorder *c, struct processors *p, struct writer *w,
					 u64 address, u64 packet, u8 kind, int packets)
{
	struct Qdisc *qdisc = SEE(Qdisc, address);
	struct net_device *device = qdisc->dev_queue->dev;
	struct record *r = next_record(c, w);

	if (!r)
		return false;
	r->time = bpf_ktime_get_ns();
	measure(r, p, address);
	r->address = address;
	r->ops = POINTER(Qdisc, address, ops);
	r->ifindex = device->ifindex;
	r->netns = device->nd_net.net->ns.inum;
	r->handle = qdisc->handle;
	r->parent = qdisc->parent;
	r->kind = kind;
	r->packets = packets;
	r->bytes = packet ? bytes_of(packet, packets) : 0;
	if (kind == KIND_ENQUEUE && r->bytes > device->mtu)
		r->packets = segments_of(packet);
	return add_record(w);
}

static __always_inline int note(u64 address, u64 packet, u8 kind, int packets)
{
	struct Qdisc *qdisc = SEE(Qdisc, address);
	struct net_device *device = qdisc->dev_queue->dev;
	u32 netns = device->nd_net.net->ns.inum, ifindex = device->ifindex;
	struct recorder *c = the_recorder();
	struct processors *p = the_processors();
	struct writer w;

	if (!c || !p || !is_watched(c, netns, ifindex) || !begin_write(c, &w))
		return 0;
	end_write(&w, write_record(c, p, &w, address, packet, kind, packets));
	return 0;
}

/* Writes the record of a packet's event on this processor. Returns false if it is lost. */
static __always_inline bool write_packet(struct recorder *c, struct writer *w, u64 packet,
					 u64 device, u8 kind)
{
	struct packet_record *r = (struct packet_record *)next_record(c, w);
	struct net_device *d = SEE(net_device, device);
	u32 whole = SEE(sk_buff, packet)->len, extra;

	if (!r)
		return false;
	r->time = bpf_ktime_get_ns();
	r->packet = packet;
	r->ifindex = d->ifindex;
	r->netns = d->nd_net.net->ns.inum;
	r->flow = flow_of(c->key, packet, &r->tos);
	r->kind = kind;
	r->bytes = whole;
	r->segment = 0;
	r->packets = whole > d->mtu ? segments_of(packet) : 1;
	if (r->packets > 1) {
		/* `pkt_len` also counts the headers that the further packets of the train will have. */
		u64 cb = packet + bpf_core_field_offset(struct sk_buff, cb);
		u64 shared = POINTER(sk_buff, packet, head) + SEE(sk_buff, packet)->end;

		r->bytes = SEE(qdisc_skb_cb, cb)->pkt_len;
		extra = r->bytes > whole ? (r->bytes - whole) / (r->packets - 1) : 0;
		r->segment = SEE(skb_shared_info, shared)->gso_size + extra;
	}
	return add_record(w);
}

/* Records the first `count` packets of a list, at most 256. */
static __always_inline int note_packets(u64 packet, u64 device, u8 kind, int count)
{
	struct net_device *d = SEE(net_device, device);
	struct recorder *c = the_recorder();
	struct writer w;
	int i;

	if (!c || !device || !is_watched(c, d->nd_net.net->ns.inum, d->ifindex))
		return 0;
	bpf_for(i, 0, 256) {
		if (i >= count || !packet || !begin_write(c, &w))
			break;
		end_write(&w, write_packet(c, &w, packet, device, kind));
		if (count > 1)
			packet = POINTER(sk_buff, packet, next);
	}
	return 0;
}

/* Argument: packet. */
SEC("raw_tp/net_dev_queue")
int on_arrive(const u64 *args)
{
	return note_packets(args[0], POINTER(sk_buff, args[0], dev), KIND_ARRIVE, 1);
}

/* Arguments: packet, device. */
SEC("raw_tp/net_dev_start_xmit")
int on_sent(const u64 *args)
{
	return note_packets(args[0], args[1], KIND_SENT, 1);
}

/* Argument: packet, which any part of the kernel may have dropped. */
SEC("raw_tp/kfree_skb")
int on_free(const u64 *args)
{
	return note_packets(args[0], POINTER(sk_buff, args[0], dev), KIND_FREE, 1);
}

/* Arguments: discipline, transmission queue, packet. */
SEC("raw_tp/qdisc_enqueue")
int on_enqueue(const u64 *args)
{
	return note(args[0], args[2], KIND_ENQUEUE, 1);
}

/*
 * Arguments: discipline, transmission queue, number of packets, first packet. The first packet is
 * null if none was dequeued.
 */
SEC("raw_tp/qdisc_dequeue")
int on_dequeue(const u64 *args)
{
	struct recorder *c = the_recorder();

	if (!args[3])
		return 0;
	if (c && c->with_packets)
		note_packets(args[3], (u64)SEE(Qdisc, args[0])->dev_queue->dev, KIND_LEAVE, args[2]);
	return note(args[0], args[3], KIND_DEQUEUE, args[2]);
}

/* Argument: discipline. */
SEC("raw_tp/qdisc_reset")
int on_reset(const u64 *args)
{
	return note(args[0], 0, KIND_RESET, 0);
}

/* Argument: discipline. */
SEC("raw_tp/qdisc_destroy")
int on_destroy(const u64 *args)
{
	return note(args[0], 0, KIND_DESTROY, 0);
}

/* Reads the name of the kind of discipline that has the operations `ops`. */
SEC("syscall")
int name_kind(void *ctx)
{
	struct recorder *c = the_recorder();

	if (!c)
		return 1;
	bpf_probe_read_kernel(c->kind, sizeof(c->kind), (void *)(c->ops + bpf_core_field_offset(struct Qdisc_ops, id)));
	return 0;
}
