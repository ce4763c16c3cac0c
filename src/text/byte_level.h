/* byte_level.h - the alphabet of byte-level BPE (GPT-2's): each byte is a printable character below U+0180, so that
 * vocabularies are text. */
#ifndef LH_TEXT_BYTE_LEVEL_H
#define LH_TEXT_BYTE_LEVEL_H

#include <stdint.h>

uint32_t lh_byte_to_char(uint8_t byte);
int lh_char_to_byte(uint32_t cp); /* -1: not in the alphabet */

#endif
