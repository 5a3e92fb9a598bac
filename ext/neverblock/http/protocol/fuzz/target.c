/*
 * The fuzz target of the parsers of heads, of the chunk decoder, and of what proxies say: LLVMFuzzerTestOneInput, as
 * libFuzzer and AFL++ want it. driver.c is a fuzzer that needs neither: `rake fuzz:http`. With clang:
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -o fuzz-http \
 *         ext/neverblock/http/protocol/fuzz/{target,heads}.c \
 *         ext/neverblock/http/protocol/{parser,target,fields,response_head,chunks,header_names}.c \
 *         ext/neverblock/http/protocol/{bytes,proxy,forwarded,address}.c
 *     ./fuzz-http -max_total_time=600 ext/neverblock/http/protocol/fuzz/corpus
 *
 * The first byte of an input says what the rest is: odd ("C") a chunked body, even a head; with bit 1 ("J") under
 * small limits; with bit 2 ("T") a PROXY header, with both ("V") the list of a Forwarded field. With bit 4 and without
 * bit 2 ("P") the head of a response, under small limits ("R"), to a HEAD request with bit 5 ("p"); with bits 3 and 4
 * ("X") a trailer section.
 *
 * However the bytes are cut, the outcome is the same, and what was accepted holds to what the parser promises. Each
 * piece is a block of its own, so that the address sanitizer sees every read beyond its end.
 */
#include "../address.h"
#include "../bytes.h"
#include "../chunks.h"
#include "../forwarded.h"
#include "../proxy.h"
#include "pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- chunked bodies ---- */
typedef struct {
    int outcome;
    const char *reason;
    size_t consumed, length;
    char *data;
} decoded_t;

/* What is over stays over, and takes nothing more. */
static void check_over(nb_chunks_t *chunks, int outcome) {
    static const char more[] = "1\r\na\r\n";
    const char *reason = NULL;
    size_t consumed;
    nb_span_t data;
    int again = nb_chunks_feed(chunks, more, sizeof more - 1, &consumed, &data, &reason);
    MUST(consumed == 0 && data.length == 0);
    MUST(outcome == NB_CHUNKS_END ? again == NB_CHUNKS_END : again == 400 && reason);
}

static void decode(decoded_t *decoded, const uint8_t *bytes, size_t size, unsigned plan) {
    pieces_t pieces = {plan, (uint32_t)size};
    nb_chunks_t chunks = {0};
    *decoded = (decoded_t){.data = room_for(size)};
    for (size_t piece; decoded->outcome == NB_CHUNKS_MORE && decoded->consumed < size;) {
        piece = next_piece(&pieces, size - decoded->consumed);
        char *copy = copy_of(bytes + decoded->consumed, piece);
        size_t at = 0, consumed;
        do {
            nb_span_t data;
            decoded->outcome = nb_chunks_feed(&chunks, copy + at, piece - at, &consumed, &data, &decoded->reason);
            MUST(consumed <= piece - at && (uint64_t)data.at + data.length <= consumed);
            MUST((decoded->outcome == NB_CHUNKS_DATA) == (data.length > 0));
            memcpy(decoded->data + decoded->length, copy + at + data.at, data.length);
            decoded->length += data.length;
            at += consumed;
        } while (decoded->outcome == NB_CHUNKS_DATA);
        MUST(decoded->outcome != NB_CHUNKS_MORE || at == piece);
        decoded->consumed += at;
        free(copy);
    }
    if (decoded->outcome > NB_CHUNKS_END) check_status(decoded->outcome, decoded->reason);
    if (decoded->outcome >= NB_CHUNKS_END) check_over(&chunks, decoded->outcome);
}

static void same_body(const decoded_t *a, const decoded_t *b) {
    MUST(a->outcome == b->outcome && a->consumed == b->consumed && a->reason == b->reason);
    MUST(a->length == b->length && memcmp(a->data, b->data, a->length) == 0);
}

/* In place, and past the end it touches nothing. */
static void gather(const decoded_t *whole, const uint8_t *bytes, size_t size) {
    nb_chunks_t chunks = {0};
    size_t consumed, gathered;
    const char *reason = NULL;
    char *copy = copy_of(bytes, size);
    int outcome = nb_chunks_gather(&chunks, copy, size, &consumed, &gathered, &reason);
    MUST(outcome == whole->outcome && consumed == whole->consumed && reason == whole->reason);
    MUST(gathered == whole->length && memcmp(copy, whole->data, gathered) == 0);
    MUST(memcmp(copy + consumed, bytes + consumed, size - consumed) == 0);
    free(copy);
}

static void try_chunks(const uint8_t *bytes, size_t size) {
    decoded_t whole, other;
    decode(&whole, bytes, size, 0);
    gather(&whole, bytes, size);
    if (whole.outcome == NB_CHUNKS_END) MUST(whole.consumed >= 5 && memcmp(bytes + whole.consumed - 2, "\r\n", 2) == 0);
    for (size_t i = 1; i < PLANS; i++) {
        decode(&other, bytes, size, plans[i]);
        same_body(&whole, &other);
        free(other.data);
    }
    free(whole.data);
}

/* Any bytes, chunked in some way, come out as they went in, and nothing of what follows is touched. */
static void try_round(const uint8_t *bytes, size_t size) {
    pieces_t pieces = {40, (uint32_t)size};
    uint8_t *encoded = (uint8_t *)room_for(size * 12 + 64);
    size_t length = 0, done = 0, piece;
    decoded_t decoded;
    for (; done < size; done += piece) {
        piece = next_piece(&pieces, size - done);
        length += (size_t)sprintf((char *)encoded + length, piece % 3 ? "%zx\r\n" : "%04zX;x\r\n", piece);
        memcpy(encoded + length, bytes + done, piece);
        length += piece;
        encoded[length++] = '\r';
        encoded[length++] = '\n';
    }
    length += (size_t)sprintf((char *)encoded + length, "0\r\nA: b\r\n\r\n");
    memcpy(encoded + length, "GET", 3);
    decode(&decoded, encoded, length + 3, plans[size % PLANS]);
    MUST(decoded.outcome == NB_CHUNKS_END && decoded.consumed == length);
    MUST(decoded.length == size && memcmp(decoded.data, bytes, size) == 0);
    free(decoded.data);
    free(encoded);
}

/* ---- PROXY headers ---- */
static nb_proxy_outcome_t parse_proxy(nb_proxy_t *proxy, const uint8_t *bytes, size_t size, unsigned plan,
                                    const char **reason) {
    pieces_t pieces = {plan, (uint32_t)size};
    nb_proxy_outcome_t outcome;
    size_t given = 0;
    do {
        given += next_piece(&pieces, size - given);
        char *copy = copy_of(bytes, given);
        memset(proxy, 0xaa, sizeof *proxy);
        outcome = nb_proxy_parse(copy, given, proxy, reason);
        free(copy);
        MUST(outcome == NB_PROXY_COMPLETE ? proxy->length <= given : proxy->length == 0 && !proxy->has_address);
    } while (outcome == NB_PROXY_MORE && given < size);
    return outcome;
}

static void try_proxy(const uint8_t *bytes, size_t size) {
    nb_proxy_t whole, other;
    const char *reason = NULL, *other_reason = NULL;
    nb_proxy_outcome_t outcome = parse_proxy(&whole, bytes, size, 0, &reason);
    if (outcome == NB_PROXY_INVALID) MUST(reason && *reason);
    if (outcome == NB_PROXY_COMPLETE) {
        MUST(whole.length >= 15 && whole.length <= 16 + NB_PROXY_BLOCK);
        MUST(bytes[0] == '\r' || (whole.length <= NB_PROXY_LINE && memcmp(bytes + whole.length - 2, "\r\n", 2) == 0));
        /* What follows is not looked at. */
        MUST(parse_proxy(&other, bytes, whole.length, 0, &other_reason) == NB_PROXY_COMPLETE &&
             other.length == whole.length);
        MUST(parse_proxy(&other, bytes, whole.length - 1, 0, &other_reason) == NB_PROXY_MORE);
    }
    for (size_t i = 1; i < PLANS; i++) {
        if (plans[i] == 1 && size > 1024) continue; /* a copy per byte */
        MUST(parse_proxy(&other, bytes, size, plans[i], &other_reason) == outcome);
        MUST(outcome != NB_PROXY_INVALID || other_reason == reason);
        MUST(other.length == whole.length && other.has_address == whole.has_address &&
             memcmp(other.address, whole.address, 16) == 0);
    }
}

/* ---- the client's address ---- */
typedef bool reader_t(const nb_trusted_t *, const char *, size_t, nb_client_t *);

/* Whatever the client has put to the left, a proxy's word to the right of it counts. */
static void try_list(reader_t *reader, const uint8_t *bytes, size_t size, const char *word, const char *behind) {
    nb_network_t network = {.address = {[10] = 0xff, [11] = 0xff, [12] = 10}, .bits = 104};
    const nb_trusted_t trusted = {&network, 1};
    const uint8_t client_address[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};
    size_t length = size + strlen(word) + strlen(behind);
    char *list = room_for(length + 1);
    nb_client_t client;
    memcpy(list, bytes, size);
    strcpy(list + size, word);
    strcat(list, behind);
    MUST(reader(&trusted, list, length, &client));
    MUST(memcmp(client.address, client_address, 16) == 0);
    MUST(client.at >= size && client.at + client.length <= length);
    free(list);
    list = copy_of(bytes, size);
    if (reader(&trusted, list, size, &client)) {
        MUST(client.length > 0 && client.at + client.length <= size);
        nb_client_t again;
        MUST(reader(&trusted, list + client.at, client.length, &again) &&
             memcmp(again.address, client.address, 16) == 0);
        MUST(again.at == 0 && again.length == client.length && again.scheme == client.scheme);
    }
    free(list);
}

static void try_forwarded(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!nb_is(bytes[i], NB_VALUE)) return; /* no field has it */
    try_list(nb_forwarded_for, bytes, size, ", 192.0.2.1:80", " , 10.1.2.3,,");
    try_list(nb_forwarded, bytes, size, ", By=\"\\\",\"; for=\"192.0.2.1:80\";proto=https", ", for=10.1.2.3;by=_x");
    nb_forwarded_proto((const char *)bytes, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const nb_head_limits_t usual = {8192, 65536, NB_MAX_FIELDS}, small = {24, 160, 4};
    if (size == 0 || size > 100000) return 0;
    const uint8_t *bytes = data + 1;
    size--;
    if (data[0] & 1) {
        try_chunks(bytes, size);
        try_round(bytes, size);
    } else if (data[0] & 4) {
        if (data[0] & 2) try_forwarded(bytes, size);
        else try_proxy(bytes, size);
    } else if ((data[0] & 24) == 24) {
        try_trailers(bytes, size, data[0] & 2 ? &small : &usual);
    } else {
        kind_t kind = !(data[0] & 16) ? REQUEST : data[0] & 32 ? RESPONSE_TO_HEAD : RESPONSE;
        try_head(kind, bytes, size, data[0] & 2 ? &small : &usual);
    }
    return 0;
}
