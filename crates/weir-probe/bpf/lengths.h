/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The length of a queue: the common part of the programs that sample and the programs that record.
 * Some disciplines have one counter, others one per processor. The addresses of per-CPU counters
 * are computed from those of the map `ruler`.
 */
#ifndef WEIR_LENGTHS_H
#define WEIR_LENGTHS_H

#include "kernel.h"

#define MAX_CPUS 512

enum {
	SLOT_ROOT = 1,    /* the discipline to which the device hands its packets */
	SLOT_PER_CPU = 2, /* has per-CPU counters */
	SLOT_BAND = 4,    /* one of the three rings of a pfifo_fast */
};

struct processors {
	u32 cpus; /* number of possible processors; written by the reader */
	u32 unused;
	u64 scratch;
	u64 apart[MAX_CPUS]; /* distance of each processor's counters from the common base; written by the program */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct processors);
} processors SEC(".maps");

/*
 * A per-CPU value that is never written. The distance between its copies is the distance between the
 * copies of any per-CPU value.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} ruler SEC(".maps");

/*
 * Converts an address to a number. The value passes through memory, so that the verifier no longer
 * tracks its type.
 */
static __always_inline u64 number_through(u64 *place, const void *value)
{
	volatile u64 *scratch = place;

	*scratch = (u64)value;
	return *scratch;
}

static __always_inline struct processors *the_processors(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&processors, &zero);
}

/* Locates the per-CPU counters of each processor. Runs once after loading. */
SEC("syscall")
int prepare(void *ctx)
{
	struct processors *p = the_processors();
	u64 base;
	int cpu;

	if (!p)
		return 1;
	base = POINTER(bpf_array, (void *)SEE(bpf_array, &ruler), pptrs);
	if (!base)
		return 2;
	bpf_for(cpu, 0, MAX_CPUS) {
		u32 zero = 0;
		void *copy;

		if (cpu >= p->cpus)
			break;
		copy = bpf_map_lookup_percpu_elem(&ruler, &zero, cpu);
		if (!copy)
			return 3;
		p->apart[cpu] = number_through(&p->scratch, copy) - base;
	}
	return 0;
}

struct length {
	u32 qlen;
	u32 backlog;
};

/*
 * The number of packets in one of pfifo_fast's rings. An empty slot at the read position means that
 * the ring is empty.
 */
static __always_inline u32 ring_length(u64 ring)
{
	struct ptr_ring *r = SEE(ptr_ring, ring);
	int producer = r->producer, consumer = r->consumer_head, size = r->size;
	u64 places = POINTER(ptr_ring, ring, queue);

	if (producer > consumer)
		return producer - consumer;
	if (producer == consumer && !word(places + 8 * (u64)consumer))
		return 0;
	return size - consumer + producer;
}

/*
 * The length that `tc` shows: from the discipline's counter, or from its per-CPU counters. For a
 * band, which `tc` does not show, the packets in its ring. `lengths` is the address of the per-CPU
 * counters or of the ring.
 */
static __always_inline struct length length_of(struct processors *p, u64 address, u64 lengths, u32 flags)
{
	struct length l = {};
	struct Qdisc *q;
	int cpu;

	if (flags & SLOT_BAND) {
		l.qlen = ring_length(lengths);
		return l;
	}
	q = SEE(Qdisc, address);
	if (!(flags & SLOT_PER_CPU)) {
		l.qlen = q->qstats.qlen + q->q.qlen;
		l.backlog = q->qstats.backlog;
		return l;
	}
	l.qlen = q->qstats.qlen;
	bpf_for(cpu, 0, MAX_CPUS) {
		struct gnet_stats_queue *s;

		if (cpu >= p->cpus)
			break;
		s = SEE(gnet_stats_queue, lengths + p->apart[cpu]);
		l.qlen += s->qlen;
		l.backlog += s->backlog;
	}
	return l;
}

#endif
