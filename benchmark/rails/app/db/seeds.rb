20.times do |i|
  Item.create!(name: "Item #{i}", price: 9.5 + i, description: "What item #{i} is good for, in some words.", in_stock: i.odd?)
end
