package wire

import "strings"

// TopicNameHint says what names Kafka takes for topics.
const TopicNameHint = "a topic's name has 1 to 249 letters, digits, dots, underscores and dashes"

// MaxTopicName is Kafka's limit in bytes: the directory of a partition has 255, and a number after the name.
const MaxTopicName = 249

// TopicName reports whether Kafka takes a name for a topic's.
func TopicName(name string) bool {
	if name == "" || len(name) > MaxTopicName || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// TopicNamesCollide reports whether two names are not the same, and so alike that Kafka creates no topic of one
// beside a topic of the other: its metrics have an underscore in place of each dot.
func TopicNamesCollide(a, b string) bool {
	return a != b && strings.ReplaceAll(a, ".", "_") == strings.ReplaceAll(b, ".", "_")
}
