{
  "targets": [
    {
      "target_name": "picket_native",
      "sources": [
        "addon.cc",
        "segment_object.cc",
        "../ring/segment.cc",
        "../ring/ring_reader.cc"
      ],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": ["NAPI_VERSION=8", "NAPI_DISABLE_CPP_EXCEPTIONS"],
      "cflags_cc": ["-std=c++17", "-Wall", "-Wextra", "-O2"],
      "cflags_cc!": ["-std=gnu++14", "-std=gnu++1y"]
    }
  ]
}
