/* byte_level.h - GPT-2's alphabet of bytes, which byte-level BPE is written in: each byte is a printable character below
 * U+0180, so that a vocabulary is text. */
#ifndef LH_TEXT_BYTE_LEVEL_H
#define LH_TEXT_BYTE_LEVEL_H

#include <stdint.h>

uint32_t lh_byte_to_char(uint8_t byte);
int lh_char_to_byte(uint32_t cp); /* -1: not in the alphabet */

#endif
