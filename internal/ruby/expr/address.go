package expr

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"strings"
)

// ipAddress is IPAddr.new.
func ipAddress(m *Machine, n *constCall, a []Value) (Value, error) {
	ip, ok := parseAddress(a[0])
	if !ok {
		return Value{}, m.raise(n, "IPAddr::InvalidAddressError", "invalid address: %s", a[0].ToS())
	}
	v, x := m.withExtra(AddressKind)
	x.ip = ip
	return v, nil
}

// parseAddress reads an address, or a network of which what stands behind the mask is cut off.
func parseAddress(v Value) (netip.Prefix, bool) {
	if v.kind == AddressKind {
		return v.o.x.ip, true
	}
	if v.kind != String {
		return netip.Prefix{}, false
	}
	text, mask, masked := strings.Cut(v.s.s, "/")
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	ip, err := netip.ParseAddr(strings.Clone(text))
	if err != nil || ip.Zone() != "" {
		return netip.Prefix{}, false
	}
	if !masked {
		return netip.PrefixFrom(ip, ip.BitLen()), true
	}
	if m, err := netip.ParseAddr(mask); err == nil && m.BitLen() == ip.BitLen() { // 255.255.0.0
		ones, ok := maskBits(m)
		return netip.PrefixFrom(ip, ones).Masked(), ok
	}
	p, err := netip.ParsePrefix(ip.String() + "/" + mask)
	return p.Masked(), err == nil
}

// maskBits counts the ones that a mask begins with, if it has no others.
func maskBits(m netip.Addr) (ones int, ok bool) {
	ended := false
	for _, c := range m.AsSlice() {
		n := bits.LeadingZeros8(^c)
		if ended && c != 0 || c<<n != 0 {
			return 0, false
		}
		ended = ended || n < 8
		ones += n
	}
	return ones, true
}

func inspectAddress(p netip.Prefix) string {
	ones, _ := netip.AddrFromSlice(bytes.Repeat([]byte{0xff}, p.Addr().BitLen()/8))
	mask := netip.PrefixFrom(ones, p.Bits()).Masked().Addr()
	if p.Addr().Is4() {
		return "IPv4:" + p.Addr().String() + "/" + mask.String()
	}
	return "IPv6:" + p.Addr().StringExpanded() + "/" + mask.StringExpanded()
}

func addressMethods() map[string]*method {
	is := func(f func(netip.Addr) bool) *method {
		return &method{fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return boolValue(f(v.o.x.ip.Addr())), nil
		}}
	}
	return map[string]*method{
		"ipv4?": is(netip.Addr.Is4), "ipv6?": is(netip.Addr.Is6), "loopback?": is(netip.Addr.IsLoopback), "private?": is(netip.Addr.IsPrivate),
		"prefix": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return intValue(int64(v.o.x.ip.Bits())), nil
		}},
		"to_i": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			if ip := v.o.x.ip.Addr(); ip.Is4() {
				return intValue(int64(binary.BigEndian.Uint32(ip.AsSlice()))), nil
			}
			return Value{}, m.exceed(n, "integers of more than 64 bits are not supported")
		}},
		"include?": {fn: addressIncludes, least: 1, most: 1}, "===": {fn: addressIncludes, least: 1, most: 1},
	}
}

func addressIncludes(m *Machine, n *call, v Value, a []Value) (Value, error) {
	other, ok := parseAddress(a[0])
	if !ok {
		return Value{}, m.raise(n, "IPAddr::InvalidAddressError", "invalid address: %s", a[0].ToS())
	}
	ip := v.o.x.ip
	return boolValue(ip.Bits() <= other.Bits() && ip.Contains(other.Addr())), nil
}
