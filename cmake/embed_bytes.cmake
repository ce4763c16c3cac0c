# bytes_of(OUT FILE): OUT becomes the bytes of FILE as the elements of a C array, "0x7b,0x0a,".
function(bytes_of out file)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
    set(${out} "${hex}" PARENT_SCOPE)
endfunction()
