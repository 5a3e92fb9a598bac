/*
 * The decoder of chunked bodies. CRLF ends every line, and nothing else does: a lone line feed within extensions is
 * what Go's CVE-2025-22871 and Kestrel's CVE-2025-55315 let through.
 */
#include "chunks.h"
#include "bytes.h"
#include <string.h>

enum {
    SIZE, SIZE_BLANK, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF,
    TRAILER, TRAILER_NAME, TRAILER_VALUE, TRAILER_LF, LAST_LF, ENDED, REFUSED
};

typedef struct {
    nb_chunks_t *chunks;
    const char **reason;
} decoder_t;

static int refuse(const decoder_t *decoder, int status, const char *reason) {
    *decoder->reason = reason;
    decoder->chunks->state = REFUSED;
    return status;
}

static int size_byte(const decoder_t *decoder, uint8_t byte) {
    nb_chunks_t *chunks = decoder->chunks;
    if (nb_is(byte, NB_HEX)) { /* digits only: protocol-http1's CVE-2023-38697 was "0x" and "+" */
        if (++chunks->digits > NB_CHUNK_DIGITS) return refuse(decoder, 400, "a chunk size with too many digits");
        if (chunks->remaining > INT64_MAX >> 4) return refuse(decoder, 413, "a chunk size beyond all limits");
        chunks->remaining = chunks->remaining << 4 | nb_hex_digit(byte);
        return 0;
    }
    if (chunks->digits == 0) return refuse(decoder, 400, "no chunk size");
    if (byte == '\r') chunks->state = SIZE_LF;
    else if (byte == ';') chunks->state = EXTENSION;
    else if (nb_is_blank(byte)) chunks->state = SIZE_BLANK; /* BWS, only before ";": §7.1.1 */
    else return refuse(decoder, 400, "a chunk size that is not a hexadecimal number");
    chunks->line = 0;
    return 0;
}

static int extension_byte(const decoder_t *decoder, uint8_t byte) {
    nb_chunks_t *chunks = decoder->chunks;
    if (byte == '\r' && chunks->state == EXTENSION) {
        chunks->state = SIZE_LF;
        return 0;
    }
    if (++chunks->line > NB_CHUNK_LINE) return refuse(decoder, 413, "chunk extensions that are too long");
    if (chunks->state == SIZE_BLANK && !nb_is_blank(byte)) {
        if (byte != ';') return refuse(decoder, 400, "a blank after a chunk size");
        chunks->state = EXTENSION;
    }
    if (!nb_is(byte, NB_VALUE)) return refuse(decoder, 400, "a control character in a chunk extension");
    return 0;
}

/* The line's own end and that of the data count too: "1 CRLF x CRLF" brings 5 bytes with one, which is allowed for
 * ever. */
static int line_ended(const decoder_t *decoder, uint8_t byte) {
    nb_chunks_t *chunks = decoder->chunks;
    if (byte != '\n') return refuse(decoder, 400, "a chunk size line without CRLF");
    uint64_t brought = (uint64_t)chunks->excess + chunks->digits + chunks->line + 4;
    uint64_t size = chunks->remaining < NB_CHUNK_EXCESS ? chunks->remaining : NB_CHUNK_EXCESS;
    uint64_t allowed = NB_CHUNK_ALLOWANCE + 2 * size;
    chunks->excess = brought > allowed ? (uint32_t)(brought - allowed) : 0;
    if (chunks->excess > NB_CHUNK_EXCESS) return refuse(decoder, 413, "chunks with far more framing than data");
    chunks->state = chunks->remaining ? DATA : TRAILER;
    return 0;
}

/* The same rules as for the head's fields. */
static int trailer_byte(const decoder_t *decoder, uint8_t byte) {
    nb_chunks_t *chunks = decoder->chunks;
    switch (chunks->state) {
    case TRAILER:
        if (byte == '\r') chunks->state = LAST_LF;
        else if (nb_is(byte, NB_TOKEN)) chunks->state = TRAILER_NAME;
        else return refuse(decoder, 400, nb_is_blank(byte) ? "a folded trailer" : "a trailer without a name");
        break;
    case TRAILER_NAME:
        if (byte == ':') chunks->state = TRAILER_VALUE;
        else if (!nb_is(byte, NB_TOKEN)) return refuse(decoder, 400, "a character no trailer name can have");
        break;
    case TRAILER_VALUE:
        if (byte == '\r') chunks->state = TRAILER_LF;
        else if (!nb_is(byte, NB_VALUE)) return refuse(decoder, 400, "a control character in a trailer");
        break;
    }
    return 0;
}

static int expect(const decoder_t *decoder, uint8_t byte, uint8_t wanted, uint8_t next, const char *reason) {
    if (byte != wanted) return refuse(decoder, 400, reason);
    decoder->chunks->state = next;
    return 0;
}

/* 0, or a status */
static int take_byte(const decoder_t *decoder, uint8_t byte) {
    nb_chunks_t *chunks = decoder->chunks;
    if (chunks->state >= TRAILER && chunks->state <= LAST_LF && ++chunks->trailers > NB_TRAILERS)
        return refuse(decoder, 413, "trailers that are too long");
    switch (chunks->state) {
    case SIZE: return size_byte(decoder, byte);
    case SIZE_BLANK:
    case EXTENSION: return extension_byte(decoder, byte);
    case SIZE_LF: return line_ended(decoder, byte);
    case DATA_CR: return expect(decoder, byte, '\r', DATA_LF, "no CRLF after a chunk's data");
    case DATA_LF:
        chunks->digits = 0;
        return expect(decoder, byte, '\n', SIZE, "no CRLF after a chunk's data");
    case TRAILER_LF: return expect(decoder, byte, '\n', TRAILER, "a trailer line without CRLF");
    case LAST_LF: return expect(decoder, byte, '\n', ENDED, "no CRLF after the last chunk");
    case REFUSED: return refuse(decoder, 400, "a chunked body that was refused before");
    default: return trailer_byte(decoder, byte);
    }
}

int nb_chunks_feed(nb_chunks_t *chunks, const char *in, size_t length, size_t *consumed, nb_span_t *data,
                   const char **reason) {
    decoder_t decoder = {chunks, reason};
    int outcome = chunks->state == ENDED ? NB_CHUNKS_END : NB_CHUNKS_MORE;
    size_t at = 0;
    *data = (nb_span_t){0, 0};
    if (length > UINT32_MAX) length = UINT32_MAX;
    while (at < length && outcome == NB_CHUNKS_MORE) {
        if (chunks->state == DATA) {
            uint64_t rest = length - at, taken = rest < chunks->remaining ? rest : chunks->remaining;
            *data = (nb_span_t){(uint32_t)at, (uint32_t)taken};
            chunks->remaining -= taken;
            if (chunks->remaining == 0) chunks->state = DATA_CR;
            at += taken;
            outcome = NB_CHUNKS_DATA;
        } else {
            outcome = take_byte(&decoder, (uint8_t)in[at]);
            if (outcome == 0) at++;
            if (chunks->state == ENDED) outcome = NB_CHUNKS_END;
        }
    }
    *consumed = at;
    return outcome;
}

int nb_chunks_gather(nb_chunks_t *chunks, char *bytes, size_t length, size_t *consumed, size_t *gathered,
                     const char **reason) {
    int outcome;
    *consumed = *gathered = 0;
    do {
        size_t used;
        nb_span_t data;
        outcome = nb_chunks_feed(chunks, bytes + *consumed, length - *consumed, &used, &data, reason);
        if (data.length) memmove(bytes + *gathered, bytes + *consumed + data.at, data.length);
        *gathered += data.length;
        *consumed += used;
    } while (outcome == NB_CHUNKS_DATA);
    return outcome;
}
