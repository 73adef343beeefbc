// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sends the selected packets of a network interface ("the device") through Weir.
 *
 * `egress` and `ingress` run on the device. One TAP device gets the packets that the target sends,
 * and another gets the packets that arrive for the target. Weir reads both, and writes each packet
 * back to the opposite TAP device, where `deliver` or `transmit` marks the packet and sends it to
 * the device. The device's programs let marked packets pass. `guard` runs on the TAP devices and
 * drops everything that the programs of the device did not redirect, such as multicast that the
 * kernel or a daemon sends on every interface.
 *
 * While its loop works, Weir renews `alive_until` several times a second. Otherwise packets soon
 * pass unshaped, so a stopped or stuck process does not cut off the target. The kernel detaches all
 * programs when Weir ends.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct settings);
} settings SEC(".maps");

/* The selected remote addresses. IPv4 addresses are mapped into IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct prefix);
	__type(value, u8);
} remotes SEC(".maps");

/* A bit for each selected port. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u64);
} ports SEC(".maps");

static __always_inline struct settings *the_settings(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline void map_ipv4(struct address *to, u32 from)
{
	to->words[0] = to->words[1] = 0;
	to->words[2] = bpf_htonl(0xffff);
	to->words[3] = from;
}

/* Reads addresses and ports. Returns false if the packet is neither IPv4 nor IPv6. */
static __always_inline bool read_packet(struct __sk_buff *skb, struct packet *p)
{
	u32 at = ETHERNET;

	p->protocol = 0;
	p->has_ports = false;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct ipv4 h;

		if (bpf_skb_load_bytes(skb, at, &h, sizeof(h)))
			return false;
		p->ipv4 = true;
		p->protocol = h.protocol;
		map_ipv4(&p->source, h.source);
		map_ipv4(&p->destination, h.destination);
		at += (h.version_length & 15) * 4;
		if (h.fragment & bpf_htons(FRAGMENT_OFFSET))
			return true;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6 h;

		if (bpf_skb_load_bytes(skb, at, &h, sizeof(h)))
			return false;
		p->ipv4 = false;
		p->protocol = h.next;
		p->source = h.source;
		p->destination = h.destination;
		at += sizeof(h);
	} else {
		return false;
	}
	if (p->protocol != TCP && p->protocol != UDP && p->protocol != SCTP)
		return true;
	p->has_ports = !bpf_skb_load_bytes(skb, at, &p->ports, sizeof(p->ports));
	return true;
}

/*
 * Whether the packet belongs to the resolution of link-layer addresses, or configures addresses.
 * Such packets pass unshaped: otherwise, the first packet to a neighbour would be delayed several
 * times.
 */
static __always_inline bool resolves_neighbours(struct __sk_buff *skb)
{
	u8 next, type;

	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return true;
	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return false;
	if (bpf_skb_load_bytes(skb, ETHERNET + 6, &next, 1) || next != ICMPV6)
		return false;
	if (bpf_skb_load_bytes(skb, ETHERNET + 40, &type, 1))
		return false;
	return type >= ROUTER_SOLICITATION && type <= REDIRECT;
}

static __always_inline bool has_address(const struct address *a)
{
	struct prefix key = { .length = 128, .address = *a };

	return bpf_map_lookup_elem(&remotes, &key);
}

static __always_inline bool has_port(__be16 port)
{
	u32 number = bpf_ntohs(port), word = number >> 6;
	u64 *bits = bpf_map_lookup_elem(&ports, &word);

	return bits && (*bits >> (number & 63) & 1);
}

/*
 * Whether the sending socket belongs to the selected group. In a control group namespace, Weir does
 * not see the groups above its own root, so it does not know the depth of a group (`level` is 0).
 * The program finds the depth with the first packet of the group.
 */
static __always_inline bool is_senders_group(struct settings *s, struct __sk_buff *skb)
{
	if (s->level)
		return bpf_skb_ancestor_cgroup_id(skb, s->level) == s->cgroup;
	for (int level = 1; level <= SEARCHED_LEVELS; level++) {
		u64 id = bpf_skb_ancestor_cgroup_id(skb, level);

		if (!id)
			return false;
		if (id == s->cgroup) {
			s->level = level;
			return true;
		}
	}
	return false;
}

/* Whether the sending socket belongs to the selected group or user. */
static __always_inline bool is_senders(struct settings *s, struct __sk_buff *skb)
{
	if (s->flags & SELECT_CGROUP)
		return is_senders_group(s, skb);
	if (s->flags & SELECT_USER)
		return bpf_get_socket_uid(skb) == s->user;
	return true;
}

/* The ID of a group's ancestor at depth `level`, or 0. The group is its own last ancestor. */
static __always_inline u64 ancestor(struct cgroup *group, u64 level)
{
	struct cgroup *ancestor;

	if (level > LEVELS || group->level < (int)level)
		return 0;
	if (bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
				  (void *)group + bpf_core_field_offset(group->ancestors) +
					  level * sizeof(ancestor)))
		return 0;
	return BPF_CORE_READ(ancestor, kn, id);
}

/*
 * Whether a socket belongs to the selected group or user. The kernel has no helper function that
 * tells the owner of a socket that was looked up.
 */
static __always_inline bool owns(struct settings *s, struct bpf_sock *socket)
{
	struct sock *full = bpf_rdonly_cast(socket, bpf_core_type_id_kernel(struct sock));
	struct cgroup *group;

	if (s->flags & SELECT_USER)
		return full->sk_uid.val == s->user;
	group = full->sk_cgrp_data.cgroup;
	if (s->level)
		return ancestor(group, s->level) == s->cgroup;
	for (int level = 1; level <= SEARCHED_LEVELS; level++) {
		if (ancestor(group, level) == s->cgroup) {
			s->level = level;
			return true;
		}
	}
	return false;
}

/* Whether the socket that would receive the packet belongs to the selected group or user. */
static __always_inline bool is_receivers(struct settings *s, struct __sk_buff *skb,
					 struct packet *p)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *socket;
	u32 length;
	bool found;

	if (!(s->flags & (SELECT_CGROUP | SELECT_USER)))
		return true;
	if (!p->has_ports)
		return false;
	if (p->ipv4) {
		tuple.ipv4.saddr = p->source.words[3];
		tuple.ipv4.daddr = p->destination.words[3];
		tuple.ipv4.sport = p->ports.source;
		tuple.ipv4.dport = p->ports.destination;
		length = sizeof(tuple.ipv4);
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, &p->source, 16);
		__builtin_memcpy(tuple.ipv6.daddr, &p->destination, 16);
		tuple.ipv6.sport = p->ports.source;
		tuple.ipv6.dport = p->ports.destination;
		length = sizeof(tuple.ipv6);
	}
	if (p->protocol == TCP)
		socket = bpf_sk_lookup_tcp(skb, &tuple, length, BPF_F_CURRENT_NETNS, 0);
	else if (p->protocol == UDP)
		socket = bpf_sk_lookup_udp(skb, &tuple, length, BPF_F_CURRENT_NETNS, 0);
	else
		return false;
	if (!socket)
		return false;
	found = owns(s, socket);
	bpf_sk_release(socket);
	return found;
}

/*
 * Whether the packet's addresses and ports are selected. `remote` and `port` belong to the far end,
 * and `other` is the port of the near end.
 */
static __always_inline bool fits(struct settings *s, struct packet *p, const struct address *remote,
				 __be16 port, __be16 other)
{
	if (s->flags & SELECT_ADDRESS && !has_address(remote))
		return false;
	if (!(s->flags & SELECT_PORT))
		return true;
	if (!p->has_ports)
		return false;
	/* On lo, both ends are on this machine, so only the port of the far end counts. */
	return has_port(port) || (!(s->flags & LOOPBACK) && has_port(other));
}

/* Whether the packet is selected, as a packet that the target sends. */
static __always_inline bool is_up(struct settings *s, struct __sk_buff *skb, struct packet *p)
{
	return fits(s, p, &p->destination, p->ports.destination, p->ports.source) &&
	       is_senders(s, skb);
}

/* Whether the packet is selected, as a packet that the target receives. */
static __always_inline bool is_down(struct settings *s, struct __sk_buff *skb, struct packet *p)
{
	return fits(s, p, &p->source, p->ports.source, p->ports.destination) &&
	       is_receivers(s, skb, p);
}

/* Whether the packet passes unshaped. Removes the mark of packets that come from this Weir. */
static __always_inline bool passes(struct settings *s, struct __sk_buff *skb)
{
	if (skb->mark == s->mark) {
		skb->mark = 0;
		return true;
	}
	/* Packets of another Weir that is attached after this one. */
	if ((skb->mark & MARK_FAMILY_MASK) == MARK_FAMILY)
		return true;
	if (bpf_ktime_get_coarse_ns() > s->alive_until) {
		if (s->alive_until)
			__sync_fetch_and_add(&s->missed, 1);
		return true;
	}
	return resolves_neighbours(skb);
}

static __always_inline int to_weir(struct settings *s, struct __sk_buff *skb, u32 tap)
{
	skb->mark = s->mark;
	return bpf_redirect(tap, 0);
}

SEC("tc")
int egress(struct __sk_buff *skb)
{
	struct settings *s = the_settings();
	struct packet p = {};
	bool is_ip;

	if (!s || passes(s, skb))
		return TCX_NEXT;
	if (!(s->flags & SELECTIVE))
		return to_weir(s, skb, s->target_tap);
	is_ip = read_packet(skb, &p);
	if (!is_ip)
		return TCX_NEXT;
	if (is_up(s, skb, &p))
		return to_weir(s, skb, s->target_tap);
	/* On lo, this program sees every packet, so it also redirects packets for the target. */
	if (s->flags & LOOPBACK && is_down(s, skb, &p))
		return to_weir(s, skb, s->network_tap);
	return TCX_NEXT;
}

SEC("tc")
int ingress(struct __sk_buff *skb)
{
	struct settings *s = the_settings();
	struct packet p = {};

	if (!s || passes(s, skb))
		return TCX_NEXT;
	if (!(s->flags & SELECTIVE))
		return to_weir(s, skb, s->network_tap);
	if (!read_packet(skb, &p) || !is_down(s, skb, &p))
		return TCX_NEXT;
	return to_weir(s, skb, s->network_tap);
}

/*
 * Sends a packet over lo. The kernel accepts a packet from one of its own addresses only if the
 * packet has a route. `bpf_redirect_neigh` looks up this route. The link-layer address of lo is not
 * that of the TAP device, so the packet counts as a packet for another host until its type is
 * changed.
 */
static __always_inline int over_lo(struct settings *s, struct __sk_buff *skb)
{
	bpf_skb_change_type(skb, PACKET_HOST);
	return bpf_redirect_neigh(s->device, (void *)0, 0, 0);
}

/* Packets that Weir writes for the target. */
SEC("tc")
int deliver(struct __sk_buff *skb)
{
	struct settings *s = the_settings();

	if (!s)
		return TCX_DROP;
	skb->mark = s->mark;
	if (s->flags & LOOPBACK)
		return over_lo(s, skb);
	return bpf_redirect(s->device, BPF_F_INGRESS);
}

/* Packets that Weir writes for the network. */
SEC("tc")
int transmit(struct __sk_buff *skb)
{
	struct settings *s = the_settings();

	if (!s)
		return TCX_DROP;
	skb->mark = s->mark;
	if (s->flags & LOOPBACK)
		return over_lo(s, skb);
	return bpf_redirect(s->device, 0);
}

SEC("tc")
int guard(struct __sk_buff *skb)
{
	struct settings *s = the_settings();

	return s && skb->mark == s->mark ? TCX_PASS : TCX_DROP;
}
