package holdfasttest

import (
	"strconv"
	"strings"
)

// parseMetadata reads the metadata of a committed offset: "hf1:", the ownership's nonce, ":", the
// sequence, both hexadecimal, and for some components ":" and the kind.
func parseMetadata(text string) (nonce, sequence uint64, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 && len(parts) != 4 || parts[0] != "hf1" {
		return 0, 0, false
	}
	nonce, err1 := strconv.ParseUint(parts[1], 16, 64)
	sequence, err2 := strconv.ParseUint(parts[2], 16, 64)
	return nonce, sequence, err1 == nil && err2 == nil && nonce != 0 && sequence != 0
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
