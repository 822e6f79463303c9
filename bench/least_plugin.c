/* The least that an NRI plugin can do: each question gets bytes that were made before, so that what
 * remains is the runtime's own cost of having a plugin at all.
 *
 * usage: least_plugin FD UID SHARE PLAIN EMPTY
 *
 * FD is a connection whose plugin is active; the others are answers, in hexadecimal, in one mux frame
 * each: to a creation in the pod UID, to any other creation, to whatever else is asked.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MUX = 8, TTRPC = 10, STREAM = 4, LARGEST = 1 << 20 };

struct bytes {
	unsigned char *at;
	size_t size;
};

static unsigned char call[2 * LARGEST];

static struct bytes decoded(const char *hex)
{
	struct bytes out = {malloc(strlen(hex) / 2 + 1), strlen(hex) / 2};

	for (size_t i = 0; i < out.size; i++)
		sscanf(hex + 2 * i, "%2hhx", out.at + i);
	return out;
}

static size_t number(const unsigned char *at)
{
	unsigned int value;

	memcpy(&value, at, sizeof value);
	return ntohl(value);
}

static int fill(int fd, unsigned char *at, size_t size)
{
	for (ssize_t got; size; at += got, size -= (size_t)got)
		if ((got = read(fd, at, size)) <= 0)
			return 0;
	return 1;
}

/* One ttrpc message into call, out of as many frames as it takes; its size, or 0 at the end. */
static size_t next(int fd)
{
	unsigned char head[MUX];
	size_t size = 0;

	do {
		if (!fill(fd, head, MUX))
			return 0;
		size_t more = number(head + 4);
		if (more > LARGEST || size > LARGEST || !fill(fd, call + size, more))
			return 0;
		size += more;
	} while (size < TTRPC || size < TTRPC + number(call));
	return size;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	int fd = atoi(argv[1]);
	struct bytes share = decoded(argv[3]), plain = decoded(argv[4]), empty = decoded(argv[5]);

	for (size_t size; (size = next(fd));) {
		struct bytes answer = empty;
		if (memmem(call, size, "CreateContainer", 15))
			answer = memmem(call, size, argv[2], strlen(argv[2])) ? share : plain;
		memcpy(answer.at + MUX + STREAM, call + STREAM, 4);
		if (write(fd, answer.at, answer.size) != (ssize_t)answer.size)
			return 1;
	}
	return 0;
}
