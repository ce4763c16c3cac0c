/* byte_level.c - the mapping of openai/gpt-2, encoder.py, bytes_to_unicode: printable bytes stand for themselves, the
 * others for U+0100 onwards in order. */
#include "text/byte_level.h"

static int printable(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

uint32_t lh_byte_to_char(uint8_t byte)
{
    if (printable(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    return byte == 0xAD ? 0x143u : 0x121u + (byte - 0x7Fu);
}

int lh_char_to_byte(uint32_t cp)
{
    if (cp < 0x100) return printable(cp) ? (int)cp : -1;
    if (cp <= 0x120) return (int)(cp - 0x100);
    if (cp <= 0x142) return (int)(cp - 0x121 + 0x7F);
    return cp == 0x143 ? 0xAD : -1;
}
