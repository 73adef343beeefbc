/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The kernel types and fields that the probe reads. The loader finds them in the type information of
 * the running kernel. The programs therefore depend on the names of fields, not on their offsets.
 */
#ifndef WEIR_KERNEL_H
#define WEIR_KERNEL_H

#include "base.h"

struct bpf_iter_num {
	u64 state;
} __attribute__((aligned(8)));

#include <bpf/bpf_tracing.h>

/*
 * Any structure that begins with an 8-byte number. The programs read addresses through this
 * structure as numbers, which allow arithmetic.
 */
struct timespec64 {
	__s64 tv_sec;
} FROM_KERNEL;

struct hlist_node {
	struct hlist_node *next;
} FROM_KERNEL;

struct hlist_head {
	struct hlist_node *first;
} FROM_KERNEL;

struct ns_common {
	u32 inum;
} FROM_KERNEL;

struct net {
	struct hlist_head *dev_index_head;
	struct ns_common ns;
} FROM_KERNEL;

typedef struct {
	struct net *net;
} FROM_KERNEL possible_net_t;

struct nsproxy {
	struct net *net_ns;
} FROM_KERNEL;

struct task_struct {
	struct nsproxy *nsproxy;
} FROM_KERNEL;

struct gnet_stats_queue {
	u32 qlen;
	u32 backlog;
	u32 drops;
	u32 requeues;
	u32 overlimits;
} FROM_KERNEL;

struct gnet_stats_basic_sync {
	struct {
		long a;
	} bytes;
	struct {
		long a;
	} packets;
} FROM_KERNEL;

struct qdisc_skb_head {
	u32 qlen;
} FROM_KERNEL;

struct sk_buff_head {
	u32 qlen;
} FROM_KERNEL;

struct Qdisc_ops {
	char id[16];
} FROM_KERNEL;

struct net_device;

struct netdev_queue {
	struct net_device *dev;
} FROM_KERNEL;

struct Qdisc {
	u32 flags;
	const struct Qdisc_ops *ops;
	struct hlist_node hash;
	u32 handle;
	u32 parent;
	struct netdev_queue *dev_queue;
	struct gnet_stats_basic_sync *cpu_bstats;
	struct gnet_stats_queue *cpu_qstats;
	struct sk_buff_head gso_skb;
	struct qdisc_skb_head q;
	struct gnet_stats_basic_sync bstats;
	struct gnet_stats_queue qstats;
	long privdata[];
} FROM_KERNEL;

struct net_device {
	unsigned int mtu;
	int ifindex;
	struct hlist_node index_hlist;
	struct Qdisc *qdisc;
	struct hlist_head qdisc_hash[16];
	possible_net_t nd_net;
} FROM_KERNEL;

struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	char cb[48];
	u32 len;
	__be16 protocol;
	u16 network_header;
	u32 end;
	unsigned char *head;
} FROM_KERNEL;

/* The control block of a packet that a device is about to queue. */
struct qdisc_skb_cb {
	unsigned int pkt_len;
} FROM_KERNEL;

struct iphdr {
	u8 tos;
	__be16 frag_off;
	u8 protocol;
	__be32 saddr;
	__be32 daddr;
} FROM_KERNEL;

struct in6_addr {
	u8 bytes[16];
};

struct ipv6hdr {
	u8 nexthdr;
	struct in6_addr saddr;
	struct in6_addr daddr;
} FROM_KERNEL;

struct udphdr {
	__be16 source;
	__be16 dest;
} FROM_KERNEL;

struct skb_shared_info {
	u16 gso_size;
	u16 gso_segs;
} FROM_KERNEL;

/* The rings of the three bands of pfifo_fast. */
struct ptr_ring {
	int producer;
	int consumer_head;
	int size;
	void **queue;
} FROM_KERNEL;

struct skb_array {
	struct ptr_ring ring;
} FROM_KERNEL;

struct pfifo_fast_priv {
	struct skb_array q[3];
} FROM_KERNEL;

/* The kernel's structure of a per-CPU array, with the addresses of its values. */
struct bpf_array {
	void *pptrs[0];
} FROM_KERNEL;

/* Flag of a discipline with per-CPU counters. */
#define TCQ_F_CPUSTATS 0x20

extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

/*
 * A typed view of kernel memory. Every read is checked: an invalid address reads as zero.
 */
#define SEE(type, address) ((struct type *)bpf_rdonly_cast((void *)(address), bpf_core_type_id_kernel(struct type)))

static __always_inline u64 word_at(const void *address)
{
	struct timespec64 *at = bpf_rdonly_cast(address, bpf_core_type_id_kernel(struct timespec64));

	return at->tv_sec;
}

#define word(address) word_at((const void *)(address))

/* The value of a pointer field as a number. */
#define POINTER(type, address, field) word((address) + bpf_core_field_offset(struct type, field))

#endif
