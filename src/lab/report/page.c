/* page.c - the frame of the page: head with the policy of what may run, style, parts, data and scripts. Only scripts
 * and style whose hashes are named may run or apply, and nothing may be loaded: texts of the files could not run even
 * if they were markup. */
#include <string.h>

#include "lab/report/assets.h"
#include "lab/report/escape.h"
#include "lab/report/report_impl.h"

/* BSD-3-Clause asks for it wherever the library goes. */
static const char d3_licence[] =
    "<!-- D3 (https://d3js.org), Copyright 2010-2020 Mike Bostock. All rights reserved. Redistribution and use in "
    "source "
    "and binary forms, with or without modification, are permitted provided that the following conditions are met: "
    "* Redistributions of source code must retain the above copyright notice, this list of conditions and the "
    "following "
    "disclaimer. * Redistributions in binary form must reproduce the above copyright notice, this list of conditions "
    "and "
    "the following disclaimer in the documentation and/or other materials provided with the distribution. * Neither "
    "the "
    "name of the author nor the names of contributors may be used to endorse or promote products derived from this "
    "software without specific prior written permission. THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND "
    "CONTRIBUTORS \"AS IS\" AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED "
    "WARRANTIES "
    "OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT OWNER OR "
    "CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES "
    "(INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR "
    "BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY, OR "
    "TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED OF "
    "THE "
    "POSSIBILITY OF SUCH DAMAGE. -->\n";

static lh_status put_hash(const lh_asset *asset, lh_buf *out)
{
    if (!asset->bytes) return LH_OK;
    LH_TRY(lh_buf_puts(out, " 'sha256-"));
    LH_TRY(lh_base64(out, asset->sha256, sizeof asset->sha256));
    return lh_buf_puts(out, "'");
}

static lh_status put_head(const lh_report *r, lh_buf *out)
{
    LH_TRY(lh_buf_puts(out,
                       "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
                       "form-action 'none'; script-src"));
    if (!lh_asset_js.bytes) LH_TRY(lh_buf_puts(out, " 'none'"));
    LH_TRY(put_hash(&lh_asset_d3, out));
    LH_TRY(put_hash(&lh_asset_js, out));
    LH_TRY(lh_buf_puts(out, "; style-src"));
    LH_TRY(put_hash(&lh_asset_css, out));
    LH_TRY(lh_buf_puts(out, "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                            "<meta name=\"color-scheme\" content=\"light dark\">\n<title>"));
    for (int64_t s = 0; s < r->source_count; s++) {
        LH_TRY(lh_buf_puts(out, s ? ", " : ""));
        LH_TRY(lh_html_text(out, r->sources[s].name));
    }
    LH_TRY(lh_buf_puts(out, " · Longhaul report</title>\n<style>"));
    LH_TRY(lh_buf_append(out, lh_asset_css.text, lh_asset_css.bytes));
    return lh_buf_puts(out, "</style>\n</head>\n");
}

static lh_status put_script(const lh_asset *asset, lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, "<script>"));
    LH_TRY(lh_buf_append(out, asset->text, asset->bytes));
    return lh_buf_puts(out, "</script>\n");
}

static lh_status put_files(const lh_report *r, lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, "<footer>\n<h2>Files</h2>\n<dl>\n"));
    for (int64_t s = 0; s < r->source_count; s++) {
        const lh_report_source *source = &r->sources[s];
        LH_TRY(lh_buf_puts(out, "<dt>"));
        LH_TRY(lh_html_text(out, source->path));
        LH_TRY(lh_buf_puts(out, "</dt>\n<dd>"));
        if (source->command) {
            LH_TRY(lh_buf_puts(out, "<code>"));
            LH_TRY(lh_html_text(out, source->command));
            LH_TRY(lh_buf_puts(out, "</code> "));
        }
        if (source->created_by) LH_TRY(lh_html_text(out, source->created_by));
        LH_TRY(lh_buf_puts(out, "</dd>\n"));
    }
    LH_TRY(
        lh_buf_puts(out, "</dl>\n<p>Made by <code>longhaul report</code>. The page loads nothing and works offline."));
    if (lh_asset_d3.bytes) LH_TRY(lh_buf_puts(out, " Figures are drawn with D3 by Mike Bostock (BSD-3-Clause)."));
    return lh_buf_puts(out, "</p>\n</footer>\n");
}

lh_status lh_report_page(const lh_report *r, lh_buf *out)
{
    LH_TRY(put_head(r, out));
    LH_TRY(lh_buf_puts(out, "<body>\n"));
    LH_TRY(lh_page_summary(r, out));
    LH_TRY(lh_buf_puts(out, "<div id=\"controls\" hidden></div>\n<main>\n"));
    LH_TRY(lh_page_figures(r, out));
    LH_TRY(lh_page_prompts(r, out));
    LH_TRY(lh_page_tables(r, out));
    LH_TRY(lh_buf_puts(out, "</main>\n"));
    LH_TRY(put_files(r, out));
    if (lh_asset_js.bytes) {
        LH_TRY(lh_page_data(r, out));
        LH_TRY(lh_buf_puts(out, d3_licence));
        LH_TRY(put_script(&lh_asset_d3, out));
        LH_TRY(put_script(&lh_asset_js, out));
    }
    return lh_buf_puts(out, "</body>\n</html>\n");
}
