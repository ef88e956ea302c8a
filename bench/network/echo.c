// SPDX-License-Identifier: Apache-2.0
//
// Sends back what it reads, over one connection after another: the limit of the loopback, as nothing is behind it.
// Its only argument is the port. It ends on a signal.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char buffer[1 << 18];

static int echo(int connection) {
    for (;;) {
        ssize_t count = read(connection, buffer, sizeof buffer);
        if (count <= 0) return (int)count;
        for (ssize_t sent = 0; sent < count;) {
            ssize_t now = write(connection, buffer + sent, (size_t)(count - sent));
            if (now < 0) return -1;
            sent += now;
        }
    }
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(arguments[1]))};
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&place, sizeof place) || listen(listener, 8)) return 1;
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) return 1;
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        echo(connection);
        close(connection);
    }
}
