package image

import (
	"net/netip"
	"strconv"
	"strings"
)

// Address reads a host that is an IP address: also an IPv4 address in the spellings of
// inet_aton, with fewer parts, in octal or hexadecimal, as resolvers of the system's
// library take them. What they lead to is the same registry, so it is compared as the
// same.
func Address(name string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return addr.Unmap(), true
	}
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var whole uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (4 - i) // the last part is all that is left
		}
		n, err := number(part, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		whole = whole<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(whole >> 24), byte(whole >> 16), byte(whole >> 8), byte(whole)}), true
}

// number reads a part of an address as C does: 0x is hexadecimal, a leading 0 octal.
func number(text string, bits int) (uint64, error) {
	switch {
	case strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X"):
		if len(text) == 2 {
			return 0, nil
		}
		return strconv.ParseUint(text[2:], 16, bits)
	case len(text) > 1 && text[0] == '0':
		return strconv.ParseUint(text[1:], 8, bits)
	}
	return strconv.ParseUint(text, 10, bits)
}

// IsPlainHost reports whether a host, with its port or without, is a name or an address
// as all programs write it. A name that ends in a number is neither: some take it for an
// address, and others look it up.
func IsPlainHost(host string) bool {
	name, _ := splitPort(host)
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return !addr.Is4In6()
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, is := strings.CutPrefix(strings.ToLower(last), "0x"); is && strings.Trim(hex, "0123456789abcdef") == "" {
		return false
	}
	return last == "" || strings.Trim(last, "0123456789") != ""
}
