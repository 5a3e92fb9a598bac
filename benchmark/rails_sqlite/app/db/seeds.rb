200.times { |i| Post.create!(title: "Post #{i}", body: "What there is to say about #{i}, in some words. " * 8) } if Post.none?
