"""Values whose size depends on the data: their largest shapes, and how operators pass sizes on."""
