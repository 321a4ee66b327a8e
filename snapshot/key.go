package snapshot

// EscapeKey returns the record key for a user's key. Keys that begin with a zero byte get one more
// in front, which keeps them apart from the reserved ones; all others are returned as they are, not
// copied. It is injective, and no key escapes to a reserved one.
func EscapeKey(key []byte) []byte {
	if len(key) == 0 || key[0] != 0 {
		return key
	}
	return append([]byte{0}, key...)
}

// UnescapeKey returns the user's key for a record key. ok is false for a reserved key, which is
// nobody's. The result shares memory with its argument.
func UnescapeKey(key []byte) (user []byte, ok bool) {
	switch {
	case Reserved(key):
		return nil, false
	case len(key) > 0 && key[0] == 0:
		return key[1:], true
	}
	return key, true
}

// Reserved reports whether a record key is one of Holdfast's own: it begins with a single zero byte.
func Reserved(key []byte) bool {
	return len(key) > 0 && key[0] == 0 && (len(key) == 1 || key[1] != 0)
}

// ReservedKey returns the reserved record key of that name. The name must not be empty and must not
// begin with a zero byte, which would make it a user's key: it panics, since names are constants.
func ReservedKey(name string) []byte {
	if name == "" || name[0] == 0 {
		panic("snapshot: a reserved key needs a name that does not begin with a zero byte")
	}
	return append([]byte{0}, name...)
}
