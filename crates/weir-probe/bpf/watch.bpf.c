// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reads the lengths of the kernel's queues at a requested rate, or as fast as possible.
 *
 * `sample` finds the disciplines of the requested devices, then reads them repeatedly for a slice
 * of time, `control.slice`. Consecutive equal readings become one run (first, last, count), so the
 * output is small. The reader maps the output arrays into its memory, so it needs no system call to
 * read them between two slices.
 */
#include "lengths.h"
#include "watch.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_QUEUES);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_RUNS);
	__type(key, u32);
	__type(value, struct run);
} runs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct gaps);
} gaps SEC(".maps");

static __always_inline struct control *the_control(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

static __always_inline struct slot *slot_at(u32 index)
{
	return bpf_map_lookup_elem(&slots, &index);
}

static __always_inline void count_of(struct processors *p, struct slot *s)
{
	struct Qdisc *q = SEE(Qdisc, s->address);
	u64 basic;
	int cpu;

	if (s->flags & SLOT_BAND)
		return;
	if (!(s->flags & SLOT_PER_CPU)) {
		s->drops = q->qstats.drops;
		s->requeues = q->qstats.requeues;
		s->overlimits = q->qstats.overlimits;
		s->bytes = POINTER(Qdisc, s->address, bstats.bytes);
		s->packets = POINTER(Qdisc, s->address, bstats.packets);
		return;
	}
	basic = POINTER(Qdisc, s->address, cpu_bstats);
	s->drops = s->requeues = s->overlimits = 0;
	s->bytes = s->packets = 0;
	bpf_for(cpu, 0, MAX_CPUS) {
		struct gnet_stats_queue *stats;
		u64 here;

		if (cpu >= p->cpus)
			break;
		stats = SEE(gnet_stats_queue, s->lengths + p->apart[cpu]);
		here = basic + p->apart[cpu];
		s->drops += stats->drops;
		s->requeues += stats->requeues;
		s->overlimits += stats->overlimits;
		s->bytes += POINTER(gnet_stats_basic_sync, here, bytes);
		s->packets += POINTER(gnet_stats_basic_sync, here, packets);
	}
}

/*
 * Assigns the next slot to a discipline. If the slot held another discipline in the last slice, the
 * reader has already delivered the open run of that discipline.
 */
static __always_inline bool add(struct control *c, u64 address, u64 lengths, u32 ifindex, u32 flags, u32 band)
{
	u32 index = c->queues;
	struct slot *s = slot_at(index);
	struct Qdisc *q = SEE(Qdisc, address);
	u64 ops = POINTER(Qdisc, address, ops);

	if (!s) {
		c->cut |= CUT_QUEUES;
		return false;
	}
	s->address = address;
	s->lengths = lengths;
	s->ifindex = ifindex;
	s->handle = q->handle;
	s->parent = q->parent;
	s->flags = flags;
	s->band = band;
	s->count = 0;
	bpf_probe_read_kernel(s->kind, sizeof(s->kind), (void *)(ops + bpf_core_field_offset(struct Qdisc_ops, id)));
	c->queues = index + 1;
	return true;
}

static __always_inline bool is_pfifo_fast(const u8 *kind)
{
	const char name[] = "pfifo_fast";
	int i;

	for (i = 0; i < sizeof(name); i++)
		if (kind[i] != name[i])
			return false;
	return true;
}

static __always_inline bool add_discipline(struct control *c, u64 address, u32 ifindex, u32 flags)
{
	struct Qdisc *q = SEE(Qdisc, address);
	u64 lengths = address;
	struct slot *s;
	u32 index = c->queues;
	int band;

	if (q->flags & TCQ_F_CPUSTATS) {
		flags |= SLOT_PER_CPU;
		lengths = POINTER(Qdisc, address, cpu_qstats);
	}
	if (!add(c, address, lengths, ifindex, flags, 0))
		return false;
	if (!c->bands)
		return true;
	s = slot_at(index);
	if (!s || !is_pfifo_fast(s->kind))
		return true;
	bpf_for(band, 0, 3) {
		u64 ring = address + bpf_core_field_offset(struct Qdisc, privdata) +
			   bpf_core_field_offset(struct pfifo_fast_priv, q) + (u64)band * bpf_core_type_size(struct skb_array) +
			   bpf_core_field_offset(struct skb_array, ring);

		if (!add(c, address, ring, ifindex, SLOT_BAND, band))
			return false;
	}
	return true;
}

/* The address of the device with this index in the caller's namespace; 0 if there is none. */
static __always_inline u64 device_at(struct control *c, u64 heads, int ifindex)
{
	u64 node = POINTER(hlist_head, heads + 8 * (u64)(ifindex & 255), first);
	int i;

	bpf_for(i, 0, 65536) {
		u64 device = node - bpf_core_field_offset(struct net_device, index_hlist);

		if (!node)
			return 0;
		if (SEE(net_device, device)->ifindex == ifindex)
			return device;
		node = POINTER(hlist_node, node, next);
	}
	c->cut |= CUT_DEVICES;
	return 0;
}

static __always_inline void add_children(struct control *c, u64 device, int ifindex)
{
	int bucket, i;

	bpf_for(bucket, 0, 16) {
		u64 head = device + bpf_core_field_offset(struct net_device, qdisc_hash) + 8 * (u64)bucket;
		u64 node = word(head);

		bpf_for(i, 0, MAX_QUEUES) {
			if (!node)
				break;
			if (!add_discipline(c, node - bpf_core_field_offset(struct Qdisc, hash), ifindex, 0))
				return;
			node = POINTER(hlist_node, node, next);
		}
	}
}

/* Fills the slots again: devices in the requested order, each root before its descendants. */
static __always_inline void resolve(struct control *c)
{
	u64 task = number_through(&c->scratch, bpf_get_current_task_btf());
	u64 proxy = POINTER(task_struct, task, nsproxy);
	u64 net = POINTER(nsproxy, proxy, net_ns);
	u64 heads = POINTER(net, net, dev_index_head);
	int i;

	c->netns = SEE(net, net)->ns.inum;
	c->queues = 0;
	c->cut = CUT_NOTHING;
	bpf_for(i, 0, MAX_DEVICES) {
		u64 device, root;
		u32 before = c->queues;

		if (i >= c->devices)
			break;
		c->found[i] = 0;
		device = device_at(c, heads, c->ifindex[i]);
		if (!device)
			continue;
		root = POINTER(net_device, device, qdisc);
		if (!root || !add_discipline(c, root, c->ifindex[i], SLOT_ROOT))
			continue;
		if (c->children)
			add_children(c, device, c->ifindex[i]);
		c->found[i] = c->queues - before;
	}
}

static __always_inline bool write_run(struct control *c, struct slot *s, u32 index)
{
	u32 at = c->runs;
	struct run *r = bpf_map_lookup_elem(&runs, &at);

	if (!r) {
		c->cut |= CUT_RUNS;
		return false;
	}
	r->first = s->first;
	r->last = s->last;
	r->slot = index;
	r->count = s->count;
	r->qlen = s->qlen;
	r->backlog = s->backlog;
	c->runs = at + 1;
	return true;
}

/* Adds a reading to the open run, or begins the next run. */
static __always_inline bool note(struct control *c, struct slot *s, u32 index, struct length l, u64 now)
{
	if (s->count && s->qlen == l.qlen && s->backlog == l.backlog) {
		s->last = now;
		s->count++;
		return true;
	}
	if (s->count && !write_run(c, s, index))
		return false;
	s->first = s->last = now;
	s->count = 1;
	s->qlen = l.qlen;
	s->backlog = l.backlog;
	return true;
}

static __always_inline void note_gap(struct control *c, struct gaps *g, u64 now)
{
	u64 gap = now - c->last;

	if (c->last) {
		u64 coarse = gap >> 10, slow = gap >> 20;

		/* The verifier must see the bound on the value that is used as the index. */
		barrier_var(coarse);
		barrier_var(slow);
		if (gap < GAPS)
			g->fine[gap]++;
		else if (coarse < GAPS)
			g->coarse[coarse]++;
		else
			g->slow[slow < GAPS ? slow : GAPS - 1]++;
		if (gap > c->longest)
			c->longest = gap;
	}
	c->last = now;
}

/*
 * Waits for the next scheduled moment and returns the time. Returns 0 if the moment lies beyond the
 * slice, or if the wait ends before the moment. A late reading is taken at once. If it is at least
 * 8 intervals late, the moments that have passed count as missed.
 */
static __always_inline u64 wait_for_turn(struct control *c, u64 end)
{
	u64 now = bpf_ktime_get_ns();
	u64 late;
	int i;

	if (!c->interval)
		return now;
	if (!c->next)
		c->next = now;
	if ((__s64)(c->next - end) > 0)
		return 0;
	bpf_for(i, 0, 1 << 20) {
		if ((__s64)(now - c->next) >= 0)
			break;
		now = bpf_ktime_get_ns();
	}
	late = now - c->next;
	if ((__s64)late < 0)
		return 0;
	if (late < 8 * c->interval) {
		c->next += c->interval;
	} else {
		u64 passed = late / c->interval;

		c->missed += passed;
		c->next += (passed + 1) * c->interval;
	}
	return now;
}

/* Reads the only queue. Its address and flags stay in local variables, which makes this fast. */
static __always_inline void read_one(struct control *c, struct processors *p, struct gaps *g, u64 end)
{
	struct slot *s = slot_at(0);
	u64 address, lengths;
	u32 flags;
	int i;

	if (!s)
		return;
	address = s->address;
	lengths = s->lengths;
	flags = s->flags;
	bpf_for(i, 0, 1 << 20) {
		u64 now = wait_for_turn(c, end);

		if (!now || !note(c, s, 0, length_of(p, address, lengths, flags), now))
			return;
		note_gap(c, g, now);
		c->readings++;
		if (now >= end || i >= c->most)
			return;
	}
}

static __always_inline void read_all(struct control *c, struct processors *p, struct gaps *g, u64 end)
{
	int i, k;

	bpf_for(i, 0, 1 << 20) {
		u64 now = wait_for_turn(c, end);

		if (!now)
			return;
		note_gap(c, g, now);
		c->readings++;
		bpf_for(k, 0, MAX_QUEUES) {
			struct slot *s;

			if (k >= c->queues)
				break;
			s = slot_at(k);
			if (!s || !note(c, s, k, length_of(p, s->address, s->lengths, s->flags), now))
				return;
		}
		if (now >= end || i >= c->most)
			return;
	}
}

/*
 * One slice: finds the queues, reads them until the end of the slice and, if requested, reads the
 * counters.
 */
SEC("syscall")
int sample(void *ctx)
{
	struct control *c = the_control();
	struct processors *p = the_processors();
	u32 zero = 0;
	struct gaps *g = bpf_map_lookup_elem(&gaps, &zero);
	u64 end;
	int k;

	if (!c || !p || !g)
		return 1;
	c->runs = 0;
	end = bpf_ktime_get_ns() + c->slice;
	bpf_rcu_read_lock();
	resolve(c);
	if (c->queues == 1)
		read_one(c, p, g, end);
	else if (c->queues)
		read_all(c, p, g, end);
	bpf_for(k, 0, MAX_QUEUES) {
		struct slot *s;

		if (!c->counters || k >= c->queues)
			break;
		s = slot_at(k);
		if (!s)
			break;
		count_of(p, s);
	}
	bpf_rcu_read_unlock();
	return 0;
}
